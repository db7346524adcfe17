/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What fuzz_broker.c gives the broker in place of the host: a clock, processes, the files that they
 * have mapped, users of certificates, and the kernel's part of a capture. The ids of processes are
 * larger than any of a real one, except the fuzzer's own: nothing of this host is examined, and
 * nothing is attached to it.
 */
#pragma once

#include <elf.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include "daemon/broker/certificates.h"
#include "daemon/broker/doctor/facts.h"
#include "daemon/broker/kernel/attach.h"
#include "daemon/broker/kernel/calibration.h"
#include "daemon/broker/mappings.h"
#include "daemon/broker/modules.h"
#include "daemon/broker/process.h"
#include "lib/base/array.h"
#include "lib/base/loop.h"
#include "lib/proc/seccomp.h"
#include "tests/fuzz/fuzz.h"

#define PROCESSES 6
#define FIRST_PID (1 << 30) /* the kernel's limit is 1 << 22 */
#define OTHER_USER 12345
#define FILES 4
#define MALFORMED_FILE 3 /* its bytes are the input's */
/* In the files: code, data, and the note of a static probe. */
#define CODE_AT 0x1000
#define DATA_AT 0x2000
#define NOTE_AT 0x200
#define NOTE_CODE (CODE_AT + 16)
#define NOTE_COUNTER (DATA_AT + 16)

/* The first one is the fuzzer itself, and all clients; it does not end. */
struct process {
	pid_t pid;
	uid_t owner;
	int directory; /* /proc/PID */
	ino_t inode;   /* of the directory */
	int end;       /* a copy is its pidfd: readable once it has ended */
	unsigned life; /* of those that had the pid */
	bool has_ended, changes_user, is_contained, has_seccomp, may_ptrace;
};

static struct {
	uint64_t now_ns;
	struct process processes[PROCESSES];
	int files[FILES];
	bool certificates_moved;
	/* What the kernel answers: 0, or a negative errno. */
	int load, attach, add;
	unsigned accepted_kinds, refused_kinds, refused_targets;
	bool lacks_btf;
	int capture_fds[4];
} fake;

static void __attribute__((noreturn)) violation(const char *text)
{
	fprintf(stderr, "ERROR: %s\n", text);
	abort();
}

uint64_t loop_now(void)
{
	return fake.now_ns;
}

static struct process *process_get(pid_t pid)
{
	for (unsigned i = 0; i < PROCESSES; i++)
		if (fake.processes[i].pid == pid && !fake.processes[i].has_ended)
			return &fake.processes[i];
	return NULL;
}

static const struct process *process_at(int directory)
{
	struct stat st;

	for (unsigned i = 0; i < PROCESSES && fstat(directory, &st) == 0; i++)
		if (fake.processes[i].inode == st.st_ino)
			return &fake.processes[i];
	violation("not the directory of a process");
}

static int copy_of(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return copy < 0 ? -errno : copy;
}

/* As pidfd_open(2), with errno. */
static int host_pidfd(pid_t pid)
{
	const struct process *p = process_get(pid);

	errno = ESRCH;
	return p ? copy_of(p->end) : -1;
}

int process_open(pid_t pid)
{
	const struct process *p = process_get(pid);

	return p ? copy_of(p->directory) : -ESRCH;
}

int process_status_read(int directory, struct process_status *ret)
{
	const struct process *p = process_at(directory);
	const uint64_t caps = p->may_ptrace ? 1u << CAP_SYS_PTRACE : 0;

	*ret = (struct process_status){ p->owner, p->owner, p->owner, caps, caps };
	return 0;
}

int process_namespace(int directory, const char *kind, struct namespace_id *ret)
{
	bool is_own = *kind == 'p' && process_at(directory)->is_contained;

	*ret = (struct namespace_id){ *kind, is_own ? 2 : 1 };
	return 0;
}

int process_owner(int directory, uid_t *ret)
{
	*ret = process_at(directory)->owner;
	return 0;
}

int target_facts_read(pid_t pid, struct target_facts *ret)
{
	const struct process *p = process_get(pid);

	*ret = (struct target_facts){ .executable = "/server", .cgroup = "/" };
	if (!p)
		return -ESRCH;
	ret->owner = p->owner;
	ret->is_uniform = !p->changes_user;
	ret->permitted = p->may_ptrace ? 1u << CAP_SYS_PTRACE : 0;
	ret->user_ns[ret->n_user_ns++] = (struct namespace_id){ 'u', 1 };
	if (p->is_contained)
		ret->pid_ns[ret->n_pid_ns++] = (struct namespace_id){ 'p', 2 };
	ret->pid_ns[ret->n_pid_ns++] = (struct namespace_id){ 'p', 1 };
	return 0;
}

bool seccomp_filters(pid_t pid)
{
	const struct process *p = process_get(pid);

	return !p || p->has_seccomp;
}

int mappings_list(pid_t pid, uid_t *ret_uid)
{
	const struct process *p = process_get(pid);

	if (!p)
		return -ESRCH;
	*ret_uid = p->owner;
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Each process has mapped all files, at the addresses of their numbers. */
int mappings_open(pid_t pid, uint64_t start, uint64_t end, uint64_t *ret_offset)
{
	if (!process_get(pid))
		return -ESRCH;
	*ret_offset = 0;
	return start < FILES && end == start + 1 ? copy_of(fake.files[start]) : -EACCES;
}

int module_open_next(pid_t pid, uid_t uid, char name[MODULE_NAME_MAX], char *ret_text, size_t size)
{
	if (!process_get(pid))
		return -ESRCH;
	snprintf(ret_text, size, "%.8s", name);
	strcpy(name, "module_0001");
	return uid == OTHER_USER ? -EACCES : open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Users of certificates; they change when the file is read again. */
struct certificates {
	bool moved;
};

int certificates_read(const char *path, struct certificates **ret, char *ret_text, size_t text_size)
{
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	(*ret)->moved = fake.certificates_moved;
	return 0;
}

struct certificates *certificates_free(struct certificates *c)
{
	free(c);
	return NULL;
}

int certificates_find(const struct certificates *c, const char *name, uid_t *ret)
{
	if (!strcmp(name, "a"))
		*ret = c->moved ? OTHER_USER : getuid();
	else if (!strcmp(name, "root") && !c->moved)
		*ret = 0;
	else
		return -ENOENT;
	return 0;
}

void bpf_facts_find(struct bpf_facts *ret)
{
	*ret = (struct bpf_facts){};
}

int bpf_tracepoint_find(void)
{
	return 0;
}

void host_facts_find(struct host_facts *f)
{
	f->capabilities = UINT32_MAX;
	f->btf = fake.lacks_btf ? -ENOENT : 0;
	f->proc = f->initial_pids = f->unified_cgroups = f->tracefs = true;
	f->max_files = f->max_locked_bytes = UINT64_MAX;
}

void process_facts_find(pid_t pid, struct process_facts *ret)
{
	*ret = (struct process_facts){ .error = process_get(pid) ? 0 : -ESRCH,
				       .state = 'S',
				       .process = pid };
}

int calibration_measure(enum attach_mode mode, struct program_cache *cache,
			struct broker_calibration *ret, char *ret_reason, size_t size)
{
	snprintf(ret_reason, size, "refused");
	*ret = (struct broker_calibration){ .emulated_ns = 1, .steady = !fake.refused_kinds };
	return fake.attach;
}

/* The kernel's part of a capture. */
struct attachment {
	enum attach_mode mode;
	struct program_cache *cache;
	unsigned kinds, n_targets;
	bool shed[KIND_COUNT];
	struct {
		pid_t pid; /* 0: forgotten */
		unsigned life;
	} targets[RECORD_MAX_TARGETS];
	struct host_site {
		struct attach_site site;
		struct stat file;
		unsigned life;
		bool attached;
	} * sites;
	size_t n_sites, sites_size;
};

struct detached {
	int ignored;
};

/* What is attached, or about to be, is what the client of the capture may have. */
static void check_attached(const struct attachment *a);

int attach_mode_find(void)
{
	return ATTACH_MULTI;
}

int attachment_new(enum attach_mode mode, unsigned kinds, unsigned stacks_hz,
		   struct program_cache *cache, int state, struct attachment **ret,
		   char *ret_reason, size_t size)
{
	struct attachment *a;

	if (fake.load) {
		snprintf(ret_reason, size, "refused");
		return fake.load;
	}
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->mode = mode;
	a->cache = cache;
	a->kinds = kinds & fake.accepted_kinds;
	*ret = a;
	return 0;
}

bool attachment_slows_every_call(const struct attachment *a)
{
	return false;
}

unsigned attachment_kinds(const struct attachment *a)
{
	return a->kinds;
}

struct attachment *attachment_free(struct attachment *a)
{
	free(a ? a->sites : NULL);
	free(a);
	return NULL;
}

/* Nothing was loaded, so that nothing is made ready. */
struct attachment_form attachment_form(const struct attachment *a)
{
	return (struct attachment_form){ .cache = a->cache, .kinds = a->kinds };
}

unsigned attachment_fds(const struct attachment *a, int ret_fds[BROKER_MAX_FDS])
{
	memcpy(ret_fds, fake.capture_fds, sizeof(fake.capture_fds));
	return ARRAY_SIZE(fake.capture_fds);
}

void attachment_show_all_users(struct attachment *a)
{
}

static void forget_pid(struct attachment *a, pid_t pid)
{
	for (unsigned i = 0; i < a->n_targets; i++)
		if (a->targets[i].pid == pid)
			a->targets[i].pid = 0;
}

int attachment_add_target(struct attachment *a, pid_t pid, uint64_t alive_ns)
{
	const struct process *p = process_get(pid);

	if (!p || a->n_targets == RECORD_MAX_TARGETS)
		violation("a process that is none, or too many");
	if (fake.add)
		return fake.add;
	forget_pid(a, pid);
	a->targets[a->n_targets].pid = pid;
	a->targets[a->n_targets++].life = p->life;
	return 0;
}

int attachment_add_site(struct attachment *a, const struct attach_site *site)
{
	const struct process *p = process_get(site->pid);
	struct host_site *new;

	if (a->n_sites >=
	    (a->mode == ATTACH_PERF_EVENT ? BROKER_MAX_PERF_EVENTS : BROKER_MAX_SITES))
		return -E2BIG;
	if (array_reserve(&a->sites, a->n_sites, &a->sites_size, sizeof(a->sites[0]), 1) < 0)
		return -ENOMEM;
	new = &a->sites[a->n_sites++];
	*new = (struct host_site){ .site = *site, .life = p ? p->life : UINT32_MAX };
	if (site->kind >= KIND_COUNT || fstat(site->file, &new->file) < 0)
		violation("a site of no kind, or without a file");
	return 0;
}

int attachment_add_path(struct attachment *a, const struct record_path *path, uint64_t *cookie)
{
	return fake.add;
}

int attachment_add_interpreter(struct attachment *a, unsigned target,
			       const struct record_interpreter *interpreter)
{
	if (target >= a->n_targets)
		violation("an interpreter of no target");
	return fake.add;
}

int attachment_shed(struct attachment *a, enum probe_kind kind, struct detached **ret)
{
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	a->shed[kind] = true;
	for (size_t i = 0; i < a->n_sites; i++)
		if (a->sites[i].site.kind == kind)
			a->sites[i].attached = false;
	return 0;
}

static void attach_site(struct host_site *s)
{
	struct stat st;

	if (!s->attached && (fstat(s->site.file, &st) < 0 || st.st_ino != s->file.st_ino))
		violation("the file of a site was closed");
	s->attached = true;
}

int attachment_resume(struct attachment *a, enum probe_kind kind, struct detached **ret)
{
	*ret = NULL;
	if (a->mode == ATTACH_PERF_EVENT)
		return -EOPNOTSUPP;
	if (!a->shed[kind])
		return 0;
	a->shed[kind] = false;
	for (size_t i = 0; i < a->n_sites; i++)
		if (a->sites[i].site.kind == kind)
			attach_site(&a->sites[i]);
	check_attached(a);
	return fake.attach ? attachment_shed(a, kind, ret) ?: fake.attach : 0;
}

int attachment_attach(struct attachment *a, struct refused *ret, const char **ret_reason)
{
	*ret = (struct refused){ .kinds = fake.refused_kinds & ((1u << KIND_COUNT) - 1) };
	for (size_t i = 0; i < a->n_sites; i++)
		if (!a->shed[a->sites[i].site.kind])
			attach_site(&a->sites[i]);
	check_attached(a);
	for (unsigned i = 0; i < a->n_targets; i++)
		if (fake.refused_targets >> i & 1 && a->targets[i].pid)
			ret->pids[ret->n++] = a->targets[i].pid;
	for (unsigned kind = 0; kind < KIND_COUNT; kind++)
		if (ret->kinds >> kind & 1 &&
		    attachment_shed(a, kind, &ret->links[ret->n_links]) == 0)
			ret->n_links++;
	*ret_reason = fake.attach ? "refused" : NULL;
	return fake.attach;
}

int attachment_forget(struct attachment *a, pid_t pid, bool watch, struct detached **ret)
{
	size_t n = 0;

	if (!watch)
		forget_pid(a, pid);
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	for (size_t i = 0; i < a->n_sites; i++)
		if (a->sites[i].site.pid != pid)
			a->sites[n++] = a->sites[i];
	a->n_sites = n;
	return 0;
}

struct detached *detached_free(struct detached *d)
{
	free(d);
	return NULL;
}

unsigned attachment_links(const struct attachment *a)
{
	return (unsigned)a->n_sites;
}

uint64_t attachment_skipped(const struct attachment *a)
{
	(void)a;
	return 0;
}

int attachment_name_threads(struct attachment *a)
{
	return fake.add;
}

/* An ELF file with code, data and a note. */
static int new_file(bool is_elf, const uint8_t *changes, size_t n_changes)
{
	static const char owner[8] = "stapsdt";
	uint8_t bytes[NOTE_AT + 64] = {};
	Elf64_Ehdr *head = (void *)bytes;
	Elf64_Phdr *part = (void *)(head + 1);
	Elf64_Nhdr *note = (void *)(bytes + NOTE_AT);
	uint8_t *text = (uint8_t *)(note + 1);
	const uint64_t found[] = { NOTE_CODE + 0x400000, 0, NOTE_COUNTER + 0x600000 };

	memcpy(head->e_ident, ELFMAG, SELFMAG);
	head->e_ident[EI_CLASS] = is_elf ? ELFCLASS64 : ELFCLASS32;
	head->e_phoff = sizeof(*head);
	head->e_phentsize = sizeof(*part);
	head->e_phnum = 2;
	part[0] = (Elf64_Phdr){ .p_type = PT_LOAD,
				.p_flags = PF_X,
				.p_offset = CODE_AT,
				.p_vaddr = CODE_AT + 0x400000,
				.p_filesz = 0x1000 };
	part[1] = (Elf64_Phdr){ .p_type = PT_LOAD,
				.p_flags = PF_W,
				.p_offset = DATA_AT,
				.p_vaddr = DATA_AT + 0x600000,
				.p_filesz = 0x1000 };
	*note = (Elf64_Nhdr){ sizeof(owner), sizeof(found), 3 };
	memcpy(text, owner, sizeof(owner));
	memcpy(text + sizeof(owner), found, sizeof(found));
	for (size_t i = 0; i + 3 <= n_changes; i += 3)
		bytes[(changes[i] | (size_t)changes[i + 1] << 8) % sizeof(bytes)] = changes[i + 2];
	return fuzz_file(bytes, sizeof(bytes));
}

static void host_new(void)
{
	const size_t sizes[] = { 4096, RECORD_MAX_CPUS * 64, 8192, 8192 };

	for (unsigned i = 0; i < PROCESSES; i++) {
		struct process *p = &fake.processes[i];
		struct stat st;

		p->pid = i ? FIRST_PID + (pid_t)i : getpid();
		p->directory = memfd_create("process", MFD_CLOEXEC);
		p->end = eventfd(0, EFD_CLOEXEC);
		if (p->end < 0 || fstat(p->directory, &st) < 0)
			abort();
		p->inode = st.st_ino;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		fake.capture_fds[i] = memfd_create("ring", MFD_CLOEXEC);
		if (ftruncate(fake.capture_fds[i], (off_t)sizes[i]) < 0)
			abort();
	}
	for (unsigned i = 0; i < FILES; i++)
		fake.files[i] = i == MALFORMED_FILE ? -1 : new_file(i < 2, NULL, 0);
}

static void process_end(struct process *p)
{
	if (write(p->end, &(uint64_t){ 1 }, sizeof(uint64_t)) < 0)
		abort();
	p->has_ended = true;
}

/* Another process gets the pid. */
static void process_replace(struct process *p)
{
	process_end(p);
	close(p->end);
	*p = (struct process){ .pid = p->pid,
			       .owner = p->owner,
			       .directory = p->directory,
			       .inode = p->inode,
			       .end = eventfd(0, EFD_CLOEXEC),
			       .life = p->life + 1 };
	if (p->end < 0)
		abort();
}

/* Of even number: the clients' own user's; of odd number: root's. */
static void host_reset(const uint8_t *changes, size_t n_changes)
{
	for (unsigned i = 0; i < PROCESSES; i++) {
		struct process *p = &fake.processes[i];

		if (p->has_ended)
			process_replace(p);
		*p = (struct process){ .pid = p->pid,
				       .owner = i % 2 ? 0 : getuid(),
				       .directory = p->directory,
				       .inode = p->inode,
				       .end = p->end };
	}
	fake.now_ns = 1000000000000;
	fake.certificates_moved = fake.lacks_btf = false;
	fake.load = fake.attach = fake.add = 0;
	fake.accepted_kinds = UINT32_MAX;
	fake.refused_kinds = fake.refused_targets = 0;
	safe_close(fake.files[MALFORMED_FILE]);
	fake.files[MALFORMED_FILE] = new_file(true, changes, n_changes);
}
