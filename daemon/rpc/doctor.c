/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rpc/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "daemon/broker/limits.h"
#include "daemon/broker/message.h"
#include "daemon/rpc/audit.h"
#include "daemon/rpc/choose.h"
#include "daemon/rpc/jobs.h"
#include "daemon/rpc/reply.h"
#include "daemon/rpc/settle.h"
#include "lib/base/macro.h"
#include "proto/control.pb-c.h"

#define FINDINGS_MAX 64

struct doctor {
	unsigned n;
	struct broker_finding findings[FINDINGS_MAX];
};

/* A call, while the broker is asked: it may be busy with captures, and the loop does not wait. */
struct asking {
	struct service *service;
	struct grpc_call *call; /* NULL: its client has disconnected */
	uint32_t pid;
	struct doctor process; /* what the front found out about the process */
	struct doctor doctor;
	struct forecast forecast;
	/* A finding of the broker about the process rules out a capture of it. */
	bool is_ruled_out;
};

__attribute__((format(printf, 5, 6))) static void add(struct doctor *d,
						      enum finding_severity severity,
						      const char *code, const char *remedy,
						      const char *format, ...)
{
	struct broker_finding *finding = &d->findings[d->n];
	va_list ap;

	if (d->n == FINDINGS_MAX)
		return;
	d->n++;
	*finding = (struct broker_finding){ .severity = severity };
	snprintf(finding->code, sizeof(finding->code), "%s", code);
	snprintf(finding->remedy, sizeof(finding->remedy), "%s", remedy);
	va_start(ap, format);
	vsnprintf(finding->text, sizeof(finding->text), format, ap);
	va_end(ap);
}

static bool has_error(const struct doctor *d)
{
	for (unsigned i = 0; i < d->n; i++)
		if (d->findings[i].severity == FINDING_ERROR)
			return true;
	return false;
}

/* The broker's findings; returns whether one of them rules out a capture of the process, regardless
 * of the host. */
static bool ask_broker(struct doctor *d, struct proxy *proxy, pid_t pid)
{
	bool about_process = false;
	int r = 0;

	for (uint32_t i = 0; r >= 0; i++) {
		struct broker_message m = { .type = BROKER_PREFLIGHT,
					    .index = i,
					    .pid = (uint32_t)pid };

		r = proxy_call(proxy, &m, NULL, NULL);
		if (r >= 0 && d->n < FINDINGS_MAX)
			d->findings[d->n++] = m.finding;
		about_process |= r >= 0 && m.pid;
	}
	if (r != -ENOENT)
		add(d, FINDING_ERROR, "no-broker", "restart tfprofd",
		    "the daemon's privileged process does not answer: %s", strerror(-r));
	return about_process;
}

static void judge_probes(struct doctor *d, const struct forecast *forecast)
{
	if (!forecast->measured) {
		add(d, FINDING_WARNING, "no-calibration", "ask again when the machine is less busy",
		    "the cost of probes could not be measured here (%s): forecasts use figures of another machine",
		    forecast->failure);
		return;
	}
	if (forecast->calibration.nop5 == NOP5_CORRUPTS)
		add(d, FINDING_NOTE, "nop5-corrupts",
		    "do not probe 5-byte nops inside functions with other tools, and update the kernel",
		    "this kernel's probes on 5-byte nops destroy data below the stack pointer; tfprofd never probes there, but other tools may");
	else if (forecast->calibration.nop5 == NOP5_SAFE)
		add(d, FINDING_OK, "nop5-safe", "",
		    "this kernel's probes on 5-byte nops leave the data below the stack pointer alone");
	add(d, FINDING_OK, "probe-cost", "",
	    "a probe costs %u ns here, %u ns where it is single-stepped, a switch of threads %u ns, and a message at a socket %u ns",
	    forecast->calibration.emulated_ns, forecast->calibration.stepped_ns,
	    forecast->calibration.switch_ns, forecast->calibration.call_ns);
}

/* Missing features are found by trying them; this is for users who ask which kernels are
 * supported. */
static void judge_release(struct doctor *d, const char *release)
{
	unsigned major = 0, minor = 0, oldest_major, oldest_minor;

	sscanf(OLDEST_KERNEL, "%u.%u", &oldest_major, &oldest_minor);
	if (sscanf(release, "%u.%u", &major, &minor) == 2 &&
	    (major < oldest_major || (major == oldest_major && minor < oldest_minor)))
		add(d, FINDING_WARNING, "old-kernel", "use Linux " OLDEST_KERNEL " or later",
		    "Linux %.64s is older than " OLDEST_KERNEL
		    ", the oldest kernel that is tested; before 5.17 the programs cannot be loaded",
		    release);
	else
		add(d, FINDING_OK, "kernel", "",
		    "Linux %.64s is no older than " OLDEST_KERNEL
		    ", the oldest kernel that is tested",
		    release);
}

/* Adds findings that do not depend on the process, and answers. */
static void answer_findings(struct grpc_call *call, const struct service *s,
			    const struct forecast *forecast, struct doctor *d)
{
	static const char *const severities[] = { [FINDING_OK] = "ok",
						  [FINDING_NOTE] = "note",
						  [FINDING_WARNING] = "warning",
						  [FINDING_ERROR] = "error" };
	Tfprofd__Finding findings[FINDINGS_MAX], *list[FINDINGS_MAX];
	Tfprofd__DoctorReply reply = TFPROFD__DOCTOR_REPLY__INIT;
	struct utsname kernel = {};

	judge_probes(d, forecast);
	if (s->options.cache < 0 || faccessat(s->options.cache, ".", W_OK, AT_EACCESS) < 0)
		add(d, FINDING_NOTE, "no-cache",
		    "make the state directory writable, or choose another one with tfprofd --state-dir",
		    "what probes cost on this machine is not kept between runs of the daemon: it is measured at each start");
	uname(&kernel);
	judge_release(d, kernel.release);
	add(d, FINDING_OK, "daemon", "", "tfprofd " TFPROFD_VERSION " answers, on Linux %.64s",
	    kernel.release);
	if (!has_error(d))
		add(d, FINDING_OK, "ready", "", "captures work here");
	for (unsigned i = 0; i < d->n; i++) {
		struct broker_finding *f = &d->findings[i];

		findings[i] = (Tfprofd__Finding)TFPROFD__FINDING__INIT;
		findings[i].code = f->code;
		findings[i].severity =
			(char *)severities[MIN(f->severity, (uint32_t)FINDING_ERROR)];
		findings[i].text = f->text;
		findings[i].remedy = f->remedy;
		list[i] = &findings[i];
	}
	reply.n_findings = d->n;
	reply.findings = list;
	reply_answer(call, &reply.base);
}

static void judge_plan(struct doctor *d, const struct capture_plan *plan)
{
	const struct prepared *p = &plan->targets[0];
	unsigned sites = 0, spec = 0;
	char text[256];

	for (unsigned f = 0; f < p->n_files; f++)
		sites += p->files[f].plan->n_sites;
	if (pack_set_has_runtime(p->target.packs))
		add(d, FINDING_OK, "target", "",
		    "process %d (%s) runs %s %.64s: %u functions of it can be found", p->target.pid,
		    p->target.name, p->target.packs->name, p->target.version, sites);
	else
		add(d, FINDING_NOTE, "no-runtime", "", "process %d (%s) has " PACKS_NO_RUNTIME,
		    p->target.pid, p->target.name);
	while (prepared_next_missing(p, &plan->detail, &spec, text, sizeof(text)))
		add(d, FINDING_WARNING, "not-shown",
		    "use a build of the runtime that is not stripped, or install its debug symbols",
		    "%s", text);
}

/* In the loop's thread, when the broker has answered. */
static void on_asked(void *data)
{
	struct asking *a = data;
	struct doctor *d = &a->doctor;

	a->service->n_doctors--;
	for (unsigned i = 0; i < a->process.n && d->n < FINDINGS_MAX && !a->is_ruled_out; i++)
		d->findings[d->n++] = a->process.findings[i];
	if (a->call) {
		grpc_call_on_cancel(a->call, NULL, NULL);
		answer_findings(a->call, a->service, &a->forecast, d);
	}
	free(a);
}

static void *ask_thread(void *data)
{
	struct asking *a = data;
	const struct service_options *options = &a->service->options;

	a->is_ruled_out =
		ask_broker(&a->doctor, options->proxy, a->pid <= INT32_MAX ? (pid_t)a->pid : 0);
	forecast_get(options->proxy, options->cache, &a->forecast);
	loop_post_surely(options->loop, on_asked, a);
	return NULL;
}

static void on_cancelled(void *data)
{
	((struct asking *)data)->call = NULL;
}

/* Takes what is known about the process over. */
static void ask(struct asking *a)
{
	pthread_t thread;

	a->service->n_doctors++;
	if (pthread_create(&thread, NULL, ask_thread, a)) {
		a->service->n_doctors--;
		grpc_call_fail(a->call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		free(a);
		return;
	}
	pthread_detach(thread);
	grpc_call_on_cancel(a->call, on_cancelled, a);
}

static void judge_failure(struct doctor *d, const struct capture_result *result)
{
	if (result->error == -ENOENT)
		add(d, FINDING_ERROR, "no-symbols",
		    "use a build of the server that is not stripped, or install its debug symbols",
		    "%s", result->text);
	else if (result->error == -ESRCH)
		add(d, FINDING_ERROR, "ended", "start it again", "%s", result->text);
	else if (result->error == -EACCES || result->error == -EPERM)
		add(d, FINDING_ERROR, "unreadable", "run tfprofd as root", "%s", result->text);
	else
		add(d, FINDING_ERROR, "malformed",
		    "use an intact build of the server: a file of its runtime cannot be read", "%s",
		    result->text);
}

/* The host may have changed since the call began: it is checked when the answer is made. */
static void answer_planned(struct job *job, struct capture_result *result)
{
	struct asking *a = calloc(1, sizeof(*a));

	if (!a) {
		grpc_call_fail(job->call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	a->service = job->service;
	a->call = job->call;
	a->pid = (uint32_t)job->pid;
	if (result->error)
		judge_failure(&a->process, result);
	else
		judge_plan(&a->process, &result->plan);
	ask(a);
}

static bool answer_unplanned(struct job *job, const struct capture_result *result)
{
	if (result->error == -ECANCELED || result->error == -ENOMEM)
		return false;
	answer_planned(job, (struct capture_result *)result);
	return true;
}

/* The process as a target that the client may capture; NULL: a finding gives the reason why it is
 * not one. */
static const struct target *find_target(struct doctor *d, struct service *s,
					const struct grpc_call *call, pid_t pid)
{
	struct named named;

	choose_named(s, call, 0, pid, &named);
	if (named.target) {
		audit_report(s, call, AUDIT_ALLOW, AUDIT_DOCTOR, pid, "%s", "");
		return named.target;
	}
	audit_report(s, call, named.denied ? AUDIT_DENY : AUDIT_FAIL, AUDIT_DOCTOR, pid, "%s",
		     named.denied ? named.reason : "the process is not a target");
	if (named.denied)
		add(d, FINDING_ERROR, "not-permitted", named.reason,
		    "you may not profile process %d of user %u", pid, named.uid);
	else if (named.error == -ENOEXEC)
		add(d, FINDING_ERROR, "no-program",
		    "choose one of those that tfprofctl targets lists",
		    "process %d executes no program: it is the kernel's, or has ended", pid);
	else
		add(d, FINDING_ERROR, "unreadable", "run tfprofd as root",
		    "cannot examine process %d: %s", pid, strerror(-named.error));
	return NULL;
}

static void ask_about(struct asking *a, struct service *s, struct grpc_call *call)
{
	const struct target *target = NULL;
	struct job job = { .pid = (pid_t)a->pid,
			   .answer = answer_planned,
			   .answer_failure = answer_unplanned };
	struct capture_request request = { .plan_only = true,
					   .n_targets = 1,
					   .detail = { .level = 3 } };

	a->service = s;
	a->call = call;
	if (!audit_pid(a->pid))
		audit_report(s, call, a->pid ? AUDIT_FAIL : AUDIT_ALLOW, AUDIT_DOCTOR, 0, "%s",
			     a->pid ? "there is no such process" : "");
	if (a->pid > INT32_MAX)
		add(&a->process, FINDING_ERROR, "no-process",
		    "choose one of those that tfprofctl targets lists", "there is no process %u",
		    a->pid);
	else if (a->pid)
		target = find_target(&a->process, s, call, (pid_t)a->pid);
	if (!target) {
		ask(a);
		return;
	}
	request.targets[0] = target;
	job_start(s, call, &job, &request);
	free(a);
}

void control_doctor(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	Tfprofd__DoctorRequest *m = tfprofd__doctor_request__unpack(NULL, size, message);
	struct asking *a = calloc(1, sizeof(*a));
	struct service *s = data;

	if (!m || !a)
		grpc_call_fail(call, a ? GRPC_INVALID_ARGUMENT : GRPC_RESOURCE_EXHAUSTED,
			       a ? "not a DoctorRequest" : "out of memory");
	else
		a->pid = m->pid;
	if (m && a && !(m->pid && settle(s, call, control_doctor, message, size, &m->pid, 1)))
		ask_about(TAKE_PTR(a), s, call);
	free(a);
	if (m)
		tfprofd__doctor_request__free_unpacked(m, NULL);
}
