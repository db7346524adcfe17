/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/doctor/facts.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "daemon/broker/kernel/capabilities.h"
#include "lib/base/macro.h"
#include "lib/proc/seccomp.h"

#define BTF "/sys/kernel/btf/vmlinux"
/* The inode of the first pid namespace: the kernel's PROC_PID_INIT_INO. */
#define INITIAL_PID_NAMESPACE 0xeffffffcu
/* PF_KTHREAD */
#define KERNEL_THREAD 0x00200000u
#define TEXT_BYTES 4096

/* The text of a small file; "" if it cannot be read. */
static bool read_text(const char *path, char ret[TEXT_BYTES])
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	ssize_t n = fd >= 0 ? read(fd, ret, TEXT_BYTES - 1) : -1;

	ret[n > 0 ? n : 0] = 0;
	return n > 0;
}

static int read_number(const char *path, int otherwise)
{
	char text[TEXT_BYTES], *end;
	long number;

	if (!read_text(path, text))
		return otherwise;
	number = strtol(text, &end, 10);
	return end == text ? otherwise : (int)number;
}

/* Whether programs may be loaded at all. */
static int try_program(void)
{
	struct bpf_insn code[] = { { .code = BPF_ALU64 | BPF_MOV | BPF_K },
				   { .code = BPF_JMP | BPF_EXIT } };
	_cleanup_close_ int program =
		bpf_prog_load(BPF_PROG_TYPE_KPROBE, "feature", "GPL", code, ARRAY_SIZE(code), NULL);

	return program < 0 ? -errno : 0;
}

static int try_ring(void)
{
	_cleanup_close_ int ring = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "feature", 0, 0,
						  (uint32_t)sysconf(_SC_PAGESIZE), NULL);

	return ring < 0 ? -errno : 0;
}

static int try_helper(enum bpf_func_id helper)
{
	int r = libbpf_probe_bpf_helper(BPF_PROG_TYPE_KPROBE, helper, NULL);

	return r < 0 ? r : r ? 0 : -EOPNOTSUPP;
}

void bpf_facts_find(struct bpf_facts *ret)
{
	*ret = (struct bpf_facts){ .program = try_program(),
				   .jit_harden =
					   read_number("/proc/sys/net/core/bpf_jit_harden", -1) };
	if (ret->program < 0)
		return;
	ret->ring = try_ring();
	ret->cookie = try_helper(BPF_FUNC_get_attach_cookie);
	ret->loop = try_helper(BPF_FUNC_loop);
}

int bpf_tracepoint_find(void)
{
	int id = libbpf_find_vmlinux_btf_id("sched_switch", BPF_TRACE_RAW_TP);

	return MIN(id, 0);
}

/* The last of several mounts on /proc is the visible one. */
static bool proc_hides_processes(void)
{
	_cleanup_free_ char *line = NULL;
	bool hides = false;
	size_t size = 0;
	FILE *mounts = fopen("/proc/self/mounts", "re");

	while (mounts && getline(&line, &size, mounts) >= 0) {
		char place[256], type[64], options[1024];
		const char *hidepid;

		if (sscanf(line, "%*s %255s %63s %1023s", place, type, options) != 3 ||
		    strcmp(place, "/proc") || strcmp(type, "proc"))
			continue;
		hidepid = strstr(options, "hidepid=");
		hides = hidepid && strncmp(hidepid, "hidepid=0", 9) &&
			strncmp(hidepid, "hidepid=off", 11);
	}
	if (mounts)
		fclose(mounts);
	return hides;
}

void host_facts_find(struct host_facts *f)
{
	struct rlimit files = {}, locked = {};
	char text[TEXT_BYTES];
	struct stat st;

	f->capabilities = capabilities_effective();
	f->btf = access(BTF, R_OK) < 0 ? -errno : 0;
	f->proc = access("/proc/self/maps", F_OK) == 0;
	f->initial_pids = stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == INITIAL_PID_NAMESPACE;
	f->hides_processes = proc_hides_processes();
	f->confidential = read_text("/sys/kernel/security/lockdown", text) &&
			  strstr(text, "[confidentiality]");
	f->integrity = strstr(text, "[integrity]");
	f->filtered = seccomp_filters(0);
	f->perf_paranoid = read_number("/proc/sys/kernel/perf_event_paranoid", -2);
	f->unprivileged_bpf = read_number("/proc/sys/kernel/unprivileged_bpf_disabled", -1);
	f->unified_cgroups = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;
	f->tracefs = access("/sys/kernel/tracing/events", F_OK) == 0 ||
		     access("/sys/kernel/debug/tracing/events", F_OK) == 0;
	getrlimit(RLIMIT_NOFILE, &files);
	getrlimit(RLIMIT_MEMLOCK, &locked);
	f->max_files = files.rlim_max;
	f->max_locked_bytes = locked.rlim_max;
}

/* Its state and whether it is a kernel thread: the fields after the name, which may contain any
 * character. */
static int read_stat(pid_t pid, struct process_facts *ret)
{
	char path[48], text[TEXT_BYTES];
	const char *rest;
	unsigned flags;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (!read_text(path, text))
		return -ESRCH;
	rest = strrchr(text, ')');
	if (!rest || sscanf(rest + 1, " %c %*d %*d %*d %*d %*d %u", &ret->state, &flags) != 2)
		return -EBADMSG;
	ret->kernel_thread = flags & KERNEL_THREAD;
	return 0;
}

static pid_t process_of(pid_t pid)
{
	char path[48], text[TEXT_BYTES];
	const char *line;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	line = read_text(path, text) ? strstr(text, "\nTgid:") : NULL;
	return line ? (pid_t)atoi(line + strlen("\nTgid:")) : pid;
}

static bool is_foreign(pid_t pid)
{
	_cleanup_close_ int fd = -1;
	Elf64_Ehdr head;
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	return fd >= 0 && pread(fd, &head, sizeof(head), 0) == sizeof(head) &&
	       !memcmp(head.e_ident, ELFMAG, SELFMAG) &&
	       (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != EM_X86_64);
}

void process_facts_find(pid_t pid, struct process_facts *ret)
{
	_cleanup_close_ int maps = -1;
	char path[48], byte;

	*ret = (struct process_facts){ .process = pid };
	ret->error = pid > 0 ? read_stat(pid, ret) : -ESRCH;
	if (ret->error < 0 || ret->kernel_thread || ret->state == 'Z' || ret->state == 'X')
		return;
	ret->process = process_of(pid);
	ret->foreign = is_foreign(pid);
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = open(path, O_RDONLY | O_CLOEXEC);
	if (maps < 0 || read(maps, &byte, 1) < 0)
		ret->maps = -errno;
}
