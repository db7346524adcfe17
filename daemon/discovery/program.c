/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/discovery/program.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/discovery/target_file.h"
#include "lib/base/macro.h"
#include "lib/base/text_file.h"
#include "lib/proc/maps.h"

/* Of /proc/PID/status. */
#define STATUS_BYTES_MAX 65536

static struct target_file file_of(const struct maps_entry *e)
{
	struct target_file file = {
		.start = e->start, .end = e->end, .device = e->device, .inode = e->inode
	};

	snprintf(file.path, sizeof(file.path), "%s", e->path);
	return file;
}

static bool has_file(const struct target_file *files, unsigned n, const struct maps_entry *e)
{
	for (unsigned i = 0; i < n; i++)
		if (files[i].device == e->device && files[i].inode == e->inode)
			return true;
	return false;
}

static int on_mapping(const struct maps_entry *e, void *data)
{
	struct process_program *program = data;
	const char *base = strrchr(e->path, '/');
	uint64_t here;

	if (!e->executable || !e->inode || !base || base[1] == 0)
		return 0;
	if (program->n_mappings++ == 0) {
		program->own = file_of(e);
		program->own_is_big = e->end - e->start >= PACK_BIG_CODE;
	}
	here = packs_of_file(base + 1);
	/* The code of a file can be mapped in several pieces. */
	if (here && !packs_of_runtimes(here) && program->n_beside < BESIDE_MAX &&
	    !has_file(program->beside, program->n_beside, e))
		program->beside[program->n_beside++] = file_of(e);
	here = packs_of_runtimes(here);
	if (!here || program->n_files == TARGET_FILES_MAX ||
	    has_file(program->files, program->n_files, e))
		return 0;
	program->runtimes |= here;
	program->files[program->n_files++] = file_of(e);
	return 0;
}

/* What the prover could not read, holds nothing that is looked for; what the daemon lacks passes.
 */
static int look_at(struct proxy *proxy, pid_t pid, const struct target_file *file,
		   const struct pack_set *set, enum plan_wanted wanted, struct plan **ret)
{
	int r = target_file_look(proxy, pid, file, set, wanted, ret);

	*ret = r < 0 ? NULL : *ret;
	if (r == -EBUSY)
		return -EINPROGRESS;
	return r == -EINPROGRESS || r == -EPIPE || r == -EMFILE || r == -ENFILE ? r : 0;
}

/* Searches a large program for a runtime that its name does not reveal; each file once. */
static int look_into_program(struct proxy *proxy, pid_t pid, struct process_program *program)
{
	bool found = false;
	int r = 0;

	for (unsigned i = 0; packs[i] && program->n_files < TARGET_FILES_MAX && r >= 0 && !found;
	     i++) {
		const struct pack_set *set = pack_set_get(UINT64_C(1) << i);
		_cleanup_(plan_unrefp) struct plan *plan = NULL;

		if (packs[i]->everywhere || program->runtimes & UINT64_C(1) << i || !set)
			continue;
		r = look_at(proxy, pid, &program->own, set, PLAN_WHOLE, &plan);
		found = plan && plan_holds_runtime(plan);
		if (!found)
			continue;
		program->runtimes |= UINT64_C(1) << i;
		program->files[program->n_files++] = program->own;
	}
	return r;
}

static void look_beside(struct process_program *program)
{
	for (unsigned i = 0; i < program->n_beside && program->n_files < TARGET_FILES_MAX; i++) {
		program->beside[i].is_beside = true;
		program->files[program->n_files++] = program->beside[i];
	}
}

/* Whether the program itself is among the files of a runtime. */
static bool has_own(const struct process_program *program)
{
	for (unsigned i = 0; i < program->n_files; i++)
		if (program->files[i].device == program->own.device &&
		    program->files[i].inode == program->own.inode)
			return true;
	return false;
}

/* A server that marks its requests does so in its own program. */
static int look_for_marks(struct proxy *proxy, pid_t pid, struct process_program *program)
{
	_cleanup_(plan_unrefp) struct plan *plan = NULL;
	int r;

	if (has_own(program) || program->n_files == TARGET_FILES_MAX || !program->own.inode)
		return 0;
	r = look_at(proxy, pid, &program->own, program->packs, PLAN_WHOLE, &plan);
	if (!plan || !plan_has_marks(plan))
		return r;
	program->own.is_beside = true;
	program->files[program->n_files++] = program->own;
	return 0;
}

int program_examine(struct proxy *proxy, pid_t pid, bool any, struct process_program *ret)
{
	struct broker_message m = { .type = BROKER_MAPS, .pid = (uint32_t)pid };
	unsigned n_fds;
	int fd = -1, r;

	*ret = (struct process_program){};
	r = proxy_call(proxy, &m, &fd, &n_fds);
	if (r >= 0) {
		r = maps_read(fd, on_mapping, ret);
		close(fd);
	}
	if (r < 0)
		return r;
	r = 0;
	ret->uid = m.uid;
	if (ret->own_is_big && !has_own(ret))
		r = look_into_program(proxy, pid, ret);
	if (ret->runtimes || any)
		ret->packs = pack_set_get(ret->runtimes);
	if (ret->packs && r >= 0) {
		r = look_for_marks(proxy, pid, ret);
		look_beside(ret);
	}
	return r;
}

/* The last number in the line of /proc/PID/status before which the key is; 0: there is none. */
static pid_t last_number(const char *status, const char *key)
{
	const char *line = strstr(status, key), *end = line ? strchr(line + 1, '\n') : NULL;

	while (end && isdigit((unsigned char)end[-1]))
		end--;
	return end ? (pid_t)strtol(end, NULL, 10) : 0;
}

void program_read_pids(pid_t pid, pid_t *ret_parent, pid_t *ret_own)
{
	_cleanup_free_ char *status = NULL;
	char path[32];

	*ret_parent = *ret_own = 0;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (text_file_read(path, STATUS_BYTES_MAX, &status) < 0)
		return;
	*ret_parent = last_number(status, "\nPPid:");
	*ret_own = last_number(status, "\nNSpid:");
}

void program_read_name(pid_t pid, char ret[16])
{
	_cleanup_close_ int fd = -1;
	char path[32];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, ret, 15) : 0;
	ret[MAX(n, 0)] = 0;
	ret[strcspn(ret, "\n")] = 0;
}

int program_read_version(struct proxy *proxy, pid_t pid, const struct process_program *program,
			 char *ret, size_t size)
{
	int r = 0;

	snprintf(ret, size, "unknown");
	for (unsigned i = 0; i < program->n_files && r >= 0; i++) {
		_cleanup_(plan_unrefp) struct plan *plan = NULL;

		if (program->files[i].is_beside)
			continue;
		r = look_at(proxy, pid, &program->files[i], program->packs, PLAN_BRIEF, &plan);
		if (plan && *plan->version &&
		    (strncmp(plan->version, "build-id:", 9) || !strcmp(ret, "unknown")))
			snprintf(ret, size, "%s", plan->version);
	}
	return r;
}
