/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/discovery/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "daemon/discovery/marks.h"
#include "daemon/plan/version.h"
#include "lib/base/macro.h"
#include "lib/elf/image.h"
#include "lib/proc/maps.h"

static struct target_file file_of(const struct maps_entry *e)
{
	struct target_file file = {
		.start = e->start, .end = e->end, .device = e->device, .inode = e->inode
	};

	snprintf(file.path, sizeof(file.path), "%s", e->path);
	return file;
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
	if (here && !packs_of_runtimes(here) && program->n_beside < BESIDE_MAX)
		program->beside[program->n_beside++] = file_of(e);
	here = packs_of_runtimes(here);
	if (!here || program->n_files == TARGET_FILES_MAX)
		return 0;
	/* A library can be mapped in several pieces. */
	for (unsigned k = 0; k < program->n_files; k++)
		if (program->files[k].device == e->device && program->files[k].inode == e->inode)
			return 0;
	program->runtimes |= here;
	program->files[program->n_files++] = file_of(e);
	return 0;
}

/* Searches a large program for a runtime that its name does not reveal; each file once. */
static void look_into_program(struct proxy *proxy, struct plan_cache *plans, pid_t pid,
			      struct process_program *program)
{
	_cleanup_close_ int fd = target_file_open(proxy, pid, &program->own);
	const char *reason;

	for (unsigned i = 0; fd >= 0 && packs[i] && program->n_files < TARGET_FILES_MAX; i++) {
		const struct pack_set *set = pack_set_get(UINT64_C(1) << i);
		_cleanup_(plan_unrefp) struct plan *plan = NULL;

		if (packs[i]->everywhere || program->runtimes & UINT64_C(1) << i || !set ||
		    plan_cache_get(plans, fd, set, false, &plan, NULL, &reason) < 0 ||
		    !plan_holds_runtime(plan))
			continue;
		program->runtimes |= UINT64_C(1) << i;
		program->files[program->n_files++] = program->own;
		break;
	}
}

static void look_beside(struct process_program *program)
{
	for (unsigned i = 0; i < program->n_beside && program->n_files < TARGET_FILES_MAX; i++) {
		program->beside[i].is_beside = true;
		program->files[program->n_files++] = program->beside[i];
	}
}

/* A server that marks its requests does so in its own program. */
static void look_for_marks(struct proxy *proxy, struct plan_cache *plans, pid_t pid,
			   struct process_program *program)
{
	for (unsigned i = 0; i < program->n_files; i++)
		if (program->files[i].device == program->own.device &&
		    program->files[i].inode == program->own.inode)
			return;
	if (program->n_files == TARGET_FILES_MAX || !program->own.inode ||
	    !marks_are_in(proxy, plans, pid, &program->own, program->packs))
		return;
	program->own.is_beside = true;
	program->files[program->n_files++] = program->own;
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

int program_examine(struct proxy *proxy, struct plan_cache *plans, pid_t pid,
		    struct process_program *ret)
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
	ret->uid = m.uid;
	if (ret->own_is_big && !has_own(ret))
		look_into_program(proxy, plans, pid, ret);
	if (ret->runtimes)
		ret->packs = pack_set_get(ret->runtimes);
	if (ret->packs) {
		look_for_marks(proxy, plans, pid, ret);
		look_beside(ret);
	}
	return 0;
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

/* The release of one of the runtimes that the file states, or else its build-id. */
static int version_of_file(const struct elf_image *image, uint64_t runtimes, char *ret, size_t size)
{
	int r = -ENOENT;

	for (unsigned i = 0; packs[i]; i++)
		if (runtimes & UINT64_C(1) << i) {
			r = version_read(image, packs[i], ret, size);
			if (r >= 0 && strncmp(ret, "build-id:", 9))
				return 0;
		}
	return r;
}

void program_read_version(struct proxy *proxy, struct target *target)
{
	snprintf(target->version, sizeof(target->version), "unknown");
	for (unsigned i = 0; i < target->n_files; i++) {
		_cleanup_close_ int fd = target_file_open(proxy, target->pid, &target->files[i]);
		_cleanup_(elf_image_freep) struct elf_image *image = NULL;
		char version[sizeof(target->version)];
		const char *reason;

		if (target->files[i].is_beside)
			continue;
		if (fd < 0 || elf_image_open(fd, &image, &reason) < 0 ||
		    version_of_file(image, packs_of_runtimes(target->packs->bits), version,
				    sizeof(version)) < 0)
			continue;
		if (strncmp(version, "build-id:", 9) || !strcmp(target->version, "unknown"))
			strcpy(target->version, version);
	}
}
