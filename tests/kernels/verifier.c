/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads each BPF program by itself, as root, and prints the verdict of the verifier, a line each:
 *   NAME ok INSTRUCTIONS EXAMINED STATES MICROSECONDS     instructions of the program, those that
 *                                                         the verifier went through
 *   NAME absent                                           this kernel has no such place, or permits
 *                                                         no program there
 *   NAME refused REASON
 * Ends with 1 when one is refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/broker/kernel/attach.h"
#include "daemon/broker/kernel/examine.h"
#include "daemon/broker/kernel/libbpf_log.h"
#include "daemon/broker/kernel/uprobe_multi.h"
#include "lib/base/macro.h"

#define LOG_BYTES 4096

static long number_after(const char *log, const char *word)
{
	const char *at = strstr(log, word);

	return at ? strtol(at + strlen(word), NULL, 10) : -1;
}

int main(void)
{
	struct program_verdict verdicts[PROGRAM_COUNT];
	int mode, attach_type, refused;

	libbpf_log_setup();
	mode = attach_mode_find();
	attach_type = mode == ATTACH_MULTI ? ATTACH_TYPE_UPROBE_MULTI : 0;
	refused = mode < 0 ? mode : programs_examine(attach_type, verdicts);
	if (refused < 0) {
		fprintf(stderr, "verifier: cannot load programs: %s\n", strerror(-refused));
		return 2;
	}
	for (enum program i = 0; i < PROGRAM_COUNT; i++) {
		const struct program_facts *f = &program_facts[i];
		char log[LOG_BYTES] = "";
		size_t instructions = 0;

		if (!program_is_supported(i))
			printf("%s absent\n", f->name);
		else if (verdicts[i].error)
			printf("%s refused %s\n%s\n", f->name, verdicts[i].reason,
			       verdicts[i].log ?: "");
		else if (program_load_alone(i, attach_type, log, sizeof(log), &instructions) >= 0)
			printf("%s ok %zu %ld %ld %ld\n", f->name, instructions,
			       number_after(log, "processed "), number_after(log, "total_states "),
			       number_after(log, "verification time "));
		else
			printf("%s refused at the second time\n", f->name), refused++;
	}
	program_verdicts_done(verdicts);
	return refused > 0;
}
