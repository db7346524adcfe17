/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/kernel/capabilities.h"

#include <errno.h>
#include <signal.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "lib/base/log.h"
#include "lib/base/macro.h"

const struct capability capabilities[CAPABILITIES] = {
	{ CAP_BPF, "CAP_BPF", "no-cap-bpf", "load BPF programs" },
	{ CAP_PERFMON, "CAP_PERFMON", "no-cap-perfmon", "attach them to processes" },
	{ CAP_SYS_PTRACE, "CAP_SYS_PTRACE", "no-cap-sys-ptrace",
	  "see what other processes have mapped" },
	{ CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", "no-cap-dac-read-search",
	  "read programs in other users' directories" },
	{ CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE", "no-cap-checkpoint-restore",
	  "open the files that processes have mapped" },
	{ CAP_SYS_ADMIN, "CAP_SYS_ADMIN", "no-cap-sys-admin",
	  "attach probes on this kernel, which has only perf events for it" },
};

uint32_t capabilities_effective(void)
{
	cap_t caps = cap_get_proc();
	uint32_t effective = 0;

	for (unsigned i = 0; caps && i < CAPABILITIES; i++) {
		cap_flag_value_t has = CAP_CLEAR;

		if (cap_get_flag(caps, capabilities[i].number, CAP_EFFECTIVE, &has) == 0 &&
		    has == CAP_SET)
			effective |= 1u << i;
	}
	cap_free(caps);
	return effective;
}

/* A process that changes its user loses its capabilities, and the signal at its parent's end,
 * unless it asks for them. */
static int become(const struct sandbox_user *user)
{
	int r;

	if (geteuid() || !user->uid)
		return 0;
	if (prctl(PR_SET_KEEPCAPS, 1) < 0)
		return -errno;
	r = sandbox_user_become(user);
	if (r > 0)
		log_warning(
			"cannot become another user and remain root; start tfprofd with CAP_SETUID and CAP_SETGID");
	return r < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 ? MIN(r, 0) : -errno;
}

int capabilities_keep(bool perf_event_uprobes, const struct sandbox_user *user)
{
	int n = CAPABILITIES - (perf_event_uprobes ? 0 : 1), r = 0;
	cap_value_t kept[CAPABILITIES];
	cap_t caps = cap_init();

	if (!caps)
		return -ENOMEM;
	for (int i = 0; i < n; i++)
		kept[i] = capabilities[i].number;
	for (int cap = 0; cap <= CAP_LAST_CAP; cap++) {
		bool keep = false;

		for (int i = 0; i < n; i++)
			keep |= kept[i] == cap;
		if (!keep && cap_get_bound(cap) == 1 && cap_drop_bound(cap) < 0)
			r = -errno;
	}
	if (r == 0)
		r = become(user);
	if (cap_set_flag(caps, CAP_PERMITTED, n, kept, CAP_SET) < 0 ||
	    cap_set_flag(caps, CAP_EFFECTIVE, n, kept, CAP_SET) < 0 || cap_set_proc(caps) < 0)
		r = -errno;
	cap_free(caps);
	if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		r = -errno;
	return r;
}
