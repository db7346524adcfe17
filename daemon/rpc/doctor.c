/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rpc/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "daemon/broker/limits.h"
#include "daemon/broker/message.h"
#include "daemon/rpc/choose.h"
#include "daemon/rpc/jobs.h"
#include "daemon/rpc/reply.h"
#include "lib/base/macro.h"
#include "proto/control.pb-c.h"

#define FINDINGS_MAX 64

struct doctor {
	unsigned n;
	struct broker_finding findings[FINDINGS_MAX];
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

static void judge_probes(struct doctor *d, const struct service *s)
{
	struct forecast forecast;

	forecast_get(s->options.proxy, s->options.cache, &forecast);
	if (!forecast.measured) {
		add(d, FINDING_WARNING, "no-calibration", "ask again when the machine is less busy",
		    "the cost of probes could not be measured here (%s): forecasts use figures of another machine",
		    forecast.failure);
		return;
	}
	if (forecast.calibration.nop5 == NOP5_CORRUPTS)
		add(d, FINDING_NOTE, "nop5-corrupts",
		    "do not probe 5-byte nops inside functions with other tools, and update the kernel",
		    "this kernel's probes on 5-byte nops destroy data below the stack pointer; tfprofd never probes there, but other tools may");
	else if (forecast.calibration.nop5 == NOP5_SAFE)
		add(d, FINDING_OK, "nop5-safe", "",
		    "this kernel's probes on 5-byte nops leave the data below the stack pointer alone");
	add(d, FINDING_OK, "probe-cost", "",
	    "a probe costs %u ns here, %u ns where it is single-stepped, a switch of threads %u ns, and a message at a socket %u ns",
	    forecast.calibration.emulated_ns, forecast.calibration.stepped_ns,
	    forecast.calibration.switch_ns, forecast.calibration.call_ns);
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
static void answer_findings(struct grpc_call *call, const struct service *s, struct doctor *d)
{
	static const char *const severities[] = { [FINDING_OK] = "ok",
						  [FINDING_NOTE] = "note",
						  [FINDING_WARNING] = "warning",
						  [FINDING_ERROR] = "error" };
	Tfprofd__Finding findings[FINDINGS_MAX], *list[FINDINGS_MAX];
	Tfprofd__DoctorReply reply = TFPROFD__DOCTOR_REPLY__INIT;
	struct utsname kernel = {};

	judge_probes(d, s);
	if (s->options.cache < 0 || faccessat(s->options.cache, ".", W_OK, AT_EACCESS) < 0)
		add(d, FINDING_NOTE, "no-cache",
		    "make the state directory writable, or choose another one with tfprofd --state-dir",
		    "plans are not kept between runs of the daemon: the first capture of each server takes longer");
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
	add(d, FINDING_OK, "target", "",
	    "process %d (%s) runs %s %.64s: %u functions of it can be found", p->target.pid,
	    p->target.name, p->target.packs->name, p->target.version, sites);
	while (prepared_next_missing(p, &plan->detail, &spec, text, sizeof(text)))
		add(d, FINDING_WARNING, "not-shown",
		    "use a build of the runtime that is not stripped, or install its debug symbols",
		    "%s", text);
}

/* The host may have changed since the call began: it is checked when the answer is made. */
static void answer_planned(struct job *job, struct capture_result *result)
{
	struct doctor *d = calloc(1, sizeof(*d));

	if (!d) {
		grpc_call_fail(job->call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	if (!ask_broker(d, job->service->options.proxy, job->pid)) {
		if (!result->error)
			judge_plan(d, &result->plan);
		else if (result->error == -ENOENT)
			add(d, FINDING_ERROR, "no-symbols",
			    "use a build of the server that is not stripped, or install its debug symbols",
			    "%s", result->text);
		else if (result->error == -ESRCH)
			add(d, FINDING_ERROR, "ended", "start it again", "%s", result->text);
		else if (result->error == -EACCES || result->error == -EPERM)
			add(d, FINDING_ERROR, "unreadable", "run tfprofd as root", "%s",
			    result->text);
		else
			add(d, FINDING_ERROR, "malformed",
			    "use an intact build of the server: a file of its runtime cannot be read",
			    "%s", result->text);
	}
	answer_findings(job->call, job->service, d);
	free(d);
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
					const struct peer *peer, pid_t pid)
{
	struct target *t;
	int error = 0;

	t = targets_examine(s->targets, pid, &error);
	if (t && peer && peer_may(peer, t))
		return t;
	if (t)
		add(d, FINDING_ERROR, "not-permitted", "run as its user or as root",
		    "you may not profile process %d of user %u", pid, t->uid);
	else if (error)
		add(d, FINDING_ERROR, "unreadable", "run tfprofd as root",
		    "cannot examine process %d: %s", pid, strerror(-error));
	else
		add(d, FINDING_ERROR, "no-runtime",
		    "choose one of those that tfprofctl targets lists",
		    "process %d has no known runtime mapped", pid);
	return NULL;
}

void control_doctor(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	Tfprofd__DoctorRequest *m = tfprofd__doctor_request__unpack(NULL, size, message);
	struct doctor *d = calloc(1, sizeof(*d));
	const struct target *target = NULL;
	struct service *s = data;
	uint32_t pid;

	if (!m || !d) {
		grpc_call_fail(call, d ? GRPC_INVALID_ARGUMENT : GRPC_RESOURCE_EXHAUSTED,
			       d ? "not a DoctorRequest" : "out of memory");
		if (m)
			tfprofd__doctor_request__free_unpacked(m, NULL);
		free(d);
		return;
	}
	pid = m->pid;
	tfprofd__doctor_request__free_unpacked(m, NULL);
	if (pid > INT32_MAX) {
		ask_broker(d, s->options.proxy, 0);
		add(d, FINDING_ERROR, "no-process",
		    "choose one of those that tfprofctl targets lists", "there is no process %u",
		    pid);
	} else if (!ask_broker(d, s->options.proxy, (pid_t)pid) && pid) {
		target = find_target(d, s, grpc_call_peer(call), (pid_t)pid);
	}
	if (target) {
		struct job job = { .pid = (pid_t)pid,
				   .answer = answer_planned,
				   .answer_failure = answer_unplanned };
		struct capture_request request = { .plan_only = true,
						   .targets = { target },
						   .n_targets = 1,
						   .detail = { .level = 3 } };

		job_start(s, call, &job, &request);
	} else {
		answer_findings(call, s, d);
	}
	free(d);
}
