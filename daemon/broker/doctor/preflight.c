/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/doctor/preflight.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/broker/kernel/capabilities.h"
#include "daemon/broker/kernel/program_cache.h"
#include "lib/base/macro.h"

/* For a capture with many targets: their files, programs, maps and links. */
#define FILES_WANTED 1024
/* For the sockets of the default configuration, and one capture. */
#define FILES_NEEDED 256

__attribute__((format(printf, 5, 6))) static void add(struct findings *f,
						      enum finding_severity severity,
						      const char *code, const char *remedy,
						      const char *format, ...)
{
	struct broker_finding *finding = &f->list[f->n];
	va_list ap;

	if (f->n == PREFLIGHT_MAX)
		return;
	f->n++;
	*finding = (struct broker_finding){ .severity = severity };
	snprintf(finding->code, sizeof(finding->code), "%s", code);
	snprintf(finding->remedy, sizeof(finding->remedy), "%s", remedy);
	va_start(ap, format);
	vsnprintf(finding->text, sizeof(finding->text), format, ap);
	va_end(ap);
}

static void judge_capabilities(const struct host_facts *h, struct findings *f)
{
	unsigned needed = CAPABILITIES - (h->mode == ATTACH_PERF_EVENT ? 0 : 1);

	for (unsigned i = 0; i < needed; i++)
		if (!(h->capabilities & 1u << i))
			add(f, FINDING_ERROR, capabilities[i].code,
			    "start tfprofd as root, or give it that capability",
			    "not permitted: %s is missing, so tfprofd cannot %s",
			    capabilities[i].name, capabilities[i].use);
}

static void judge_bpf(const struct host_facts *h, struct findings *f)
{
	const struct {
		int error;
		const char *code, *what, *remedy;
	} features[] = {
		{ h->bpf.cookie, "no-bpf-cookie", "attach cookies",
		  "use Linux " OLDEST_KERNEL " or later" },
		{ h->bpf.loop, "no-bpf-loop", "loops in BPF programs",
		  "use Linux " OLDEST_KERNEL " or later" },
		{ h->bpf.tracepoint, "no-tp-btf", "typed scheduler tracepoints",
		  "use a kernel built with CONFIG_DEBUG_INFO_BTF, Linux " OLDEST_KERNEL
		  " or later" },
	};
	int r = h->bpf.program;

	if (h->confidential)
		add(f, FINDING_ERROR, "lockdown",
		    "boot with lockdown=integrity, or without lockdown",
		    "the kernel is locked down (confidentiality): BPF programs may not read its memory");
	else if (r == -EPERM && h->filtered)
		add(f, FINDING_ERROR, "seccomp",
		    "allow bpf and perf_event_open in the container's seccomp profile",
		    "a seccomp filter around tfprofd refuses bpf(2)");
	else if (r == -ENOSYS)
		add(f, FINDING_ERROR, "no-bpf", "use a kernel built with CONFIG_BPF_SYSCALL",
		    "this kernel has no bpf(2)");
	else if (r < 0)
		add(f, FINDING_ERROR, "no-bpf",
		    "start tfprofd as root, where bpf(2) is not restricted",
		    "bpf(2) refuses programs: %s", strerror(-r));
	if (r < 0)
		return;
	if (h->bpf.ring == -EPERM)
		add(f, FINDING_ERROR, "memlock",
		    "raise it: LimitMEMLOCK=infinity, or ulimit -l unlimited",
		    "ring buffers exceed RLIMIT_MEMLOCK (%llu bytes)",
		    (unsigned long long)h->max_locked_bytes);
	else if (h->bpf.ring < 0)
		add(f, FINDING_ERROR, "no-bpf-ring", "use Linux " OLDEST_KERNEL " or later",
		    "this kernel has no BPF ring buffers: %s", strerror(-h->bpf.ring));
	for (unsigned i = 0; i < ARRAY_SIZE(features); i++)
		if (features[i].error < 0)
			add(f, FINDING_ERROR, features[i].code, features[i].remedy,
			    "this kernel has no %s: %s", features[i].what,
			    strerror(-features[i].error));
	if (h->mode == ATTACH_PERF_EVENT)
		add(f, FINDING_WARNING, "perf-event-probes", "use Linux 6.6 or later",
		    "probes are perf events: they need CAP_SYS_ADMIN and are removed one by one, after the capture's result has been sent");
}

void preflight_judge_programs(const struct program_verdict *verdicts, struct findings *f)
{
	static const char remedy[] =
		"update the kernel, or report this with " PROGRAMS_LOG " in the state directory";

	for (enum program i = 0; i < PROGRAM_COUNT; i++) {
		const struct program_facts *p = &program_facts[i];

		if (!verdicts[i].error)
			continue;
		if (p->kind == KIND_COUNT)
			add(f, FINDING_ERROR, "program-refused", remedy,
			    "the kernel refuses the BPF program %s, which every capture needs: %s",
			    p->name, verdicts[i].reason);
		else
			add(f, FINDING_WARNING, "program-refused", remedy,
			    "the kernel refuses the BPF program %s, so captures lack %s: %s",
			    p->name,
			    p->is_extra ? "the time at which requests arrived"
					: probe_kind_name(p->kind),
			    verdicts[i].reason);
	}
}

void preflight_judge_load(const char *reason, struct findings *f)
{
	add(f, FINDING_ERROR, "no-programs", "see the broker's messages (tfprofd --verbose)",
	    "the programs of a capture cannot be loaded: %s", reason);
}

void preflight_list_limits(const struct host_facts *h, struct findings *f)
{
	if (h->perf_paranoid > 2 && h->sideband)
		add(f, FINDING_OK, "perf-paranoid", "",
		    "perf_event_paranoid is %d: new processes are detected through events that were opened before privileges were dropped",
		    h->perf_paranoid);
	if (h->unprivileged_bpf > 0)
		add(f, FINDING_OK, "unprivileged-bpf", "",
		    "unprivileged_bpf_disabled is %d: programs are loaded with CAP_BPF",
		    h->unprivileged_bpf);
	if (h->integrity)
		add(f, FINDING_OK, "lockdown", "",
		    "the kernel is locked down (integrity): BPF programs may still read");
	if (h->max_locked_bytes != UINT64_MAX && h->bpf.ring >= 0)
		add(f, FINDING_OK, "memlock", "",
		    "RLIMIT_MEMLOCK is %llu bytes: this kernel does not count ring buffers there",
		    (unsigned long long)h->max_locked_bytes);
	if (h->bpf.jit_harden > 0)
		add(f, FINDING_OK, "jit-harden", "",
		    "bpf_jit_harden is %d: programs run with blinded constants", h->bpf.jit_harden);
	if (!h->unified_cgroups)
		add(f, FINDING_OK, "cgroup-v1", "",
		    "this host has no cgroup v2 at /sys/fs/cgroup: tfprofd uses no cgroups");
	if (!h->tracefs)
		add(f, FINDING_OK, "no-tracefs", "",
		    "tracefs is not mounted: tfprofd does not use it");
}

static void judge_view(const struct host_facts *h, struct findings *f)
{
	if (!h->proc)
		add(f, FINDING_ERROR, "no-proc", "mount /proc where tfprofd runs",
		    "/proc is missing, or that of another pid namespace");
	else if (!h->initial_pids)
		add(f, FINDING_ERROR, "pid-namespace",
		    "share the host's: docker run --pid=host, or hostPID: true",
		    "tfprofd runs in a pid namespace of its own, whose process ids differ from those that the kernel records");
	if (h->hides_processes)
		add(f, FINDING_WARNING, "hidepid", "mount /proc without hidepid where tfprofd runs",
		    "/proc is mounted with hidepid: running processes are found only if they are named with --pid");
	if (!h->sideband)
		add(f, FINDING_WARNING, "no-sideband", "start tfprofd with CAP_SYS_ADMIN",
		    "new processes are found only when a client lists targets: the kernel refuses to report them (perf_event_paranoid is %d)",
		    h->perf_paranoid);
}

void preflight_judge_host(const struct host_facts *h, struct findings *f)
{
	/* First: without descriptors other facts cannot be found. */
	if (h->max_files < FILES_NEEDED)
		add(f, FINDING_ERROR, "few-files", "raise it: LimitNOFILE=, or ulimit -Hn",
		    "RLIMIT_NOFILE is %llu: the daemon needs at least %d",
		    (unsigned long long)h->max_files, FILES_NEEDED);
	judge_capabilities(h, f);
	if (h->btf < 0)
		add(f, FINDING_ERROR, "no-btf", "use a kernel built with CONFIG_DEBUG_INFO_BTF",
		    "this kernel provides no BTF (/sys/kernel/btf/vmlinux: %s)", strerror(-h->btf));
	/* Without the capabilities everything is refused, which implies nothing about the
	 * kernel. */
	if (!preflight_error(f))
		judge_bpf(h, f);
	judge_view(h, f);
	if (h->max_files >= FILES_NEEDED && h->max_files < FILES_WANTED)
		add(f, FINDING_WARNING, "few-files", "raise it: LimitNOFILE=, or ulimit -Hn",
		    "RLIMIT_NOFILE is %llu: captures of many processes will fail",
		    (unsigned long long)h->max_files);
	if (h->unprivileged_bpf == 0)
		add(f, FINDING_NOTE, "unprivileged-bpf",
		    "sysctl kernel.unprivileged_bpf_disabled=2",
		    "every user of this host may load BPF programs; tfprofd does not need this");
}

void preflight_judge_process(pid_t pid, const struct process_facts *p, struct findings *f)
{
	static const char look[] = "choose one of those that tfprofctl targets lists";

	if (p->error == -ESRCH)
		add(f, FINDING_ERROR, "no-process", look, "there is no process %d", pid);
	else if (p->error < 0)
		add(f, FINDING_ERROR, "unreadable", "run tfprofd as root",
		    "cannot examine process %d: %s", pid, strerror(-p->error));
	else if (p->kernel_thread)
		add(f, FINDING_ERROR, "kernel-thread", look, "%d is a kernel thread, not a process",
		    pid);
	else if (p->state == 'Z' || p->state == 'X')
		add(f, FINDING_ERROR, "ended", look,
		    "process %d has ended; its parent has not waited for it yet", pid);
	else if (p->process != pid)
		add(f, FINDING_ERROR, "no-process", "use the id of the process",
		    "%d is a thread of process %d", pid, p->process);
	else if (p->foreign)
		add(f, FINDING_ERROR, "architecture", "use a 64-bit build of the server",
		    "process %d is not a 64-bit program of this machine's architecture", pid);
	else if (p->maps < 0)
		add(f, FINDING_ERROR, "unreadable", "run tfprofd as root",
		    "cannot read the mappings of process %d: %s", pid, strerror(-p->maps));
}

const struct broker_finding *preflight_error(const struct findings *f)
{
	for (unsigned i = 0; i < f->n; i++)
		if (f->list[i].severity == FINDING_ERROR)
			return &f->list[i];
	return NULL;
}

void preflight_describe(const struct broker_finding *finding, char *ret_text, size_t size)
{
	snprintf(ret_text, size, "%s: %s%s%s", finding->code, finding->text,
		 *finding->remedy ? "; " : "", finding->remedy);
}
