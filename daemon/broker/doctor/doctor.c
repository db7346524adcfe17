/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/doctor/doctor.h"

#include <errno.h>
#include <stdio.h>

#include "daemon/broker/kernel/attach.h"
#include "daemon/broker/kernel/calibration.h"
#include "daemon/broker/kernel/program_cache.h"
#include "lib/base/log.h"
#include "lib/base/loop.h"

/* A failed measurement is not repeated at once: the broker serves no request meanwhile. */
#define CALIBRATE_AGAIN_NS 60000000000ull

#define FAIL(m, error, ...)                                                                        \
	({                                                                                         \
		snprintf((m)->text, sizeof((m)->text), __VA_ARGS__);                               \
		(error);                                                                           \
	})

static void judge_host(const struct doctor *d, struct host_facts *ret_host, struct findings *ret)
{
	*ret_host = (struct host_facts){ .mode = d->mode, .sideband = d->sideband, .bpf = d->bpf };
	host_facts_find(ret_host);
	ret->n = 0;
	preflight_judge_host(ret_host, ret);
}

/* Loads every program that a capture loads, once in the broker's lifetime: the result does not
 * change. */
static void judge_programs(struct doctor *d, struct findings *ret)
{
	const struct program_verdict *verdicts;
	struct attachment *a = NULL;
	char reason[128] = "";

	if (!d->programs_loaded)
		d->programs_loaded = attachment_new(d->mode, PROGRAM_KINDS, 0, d->programs, -1, &a,
						    reason, sizeof(reason)) >= 0;
	attachment_free(a);
	if (programs_refused(d->programs, &verdicts))
		preflight_judge_programs(verdicts, ret);
	else if (!d->programs_loaded)
		preflight_judge_load(reason, ret);
}

/* The list is made when its first finding is requested. */
static void list_findings(struct doctor *d, pid_t pid, struct findings *ret)
{
	struct process_facts process;
	struct host_facts host;

	if (!d->tracepoint_known)
		d->bpf.tracepoint = bpf_tracepoint_find();
	d->tracepoint_known = true;
	judge_host(d, &host, ret);
	if (!preflight_error(ret))
		judge_programs(d, ret);
	preflight_list_limits(&host, ret);
	d->n_host_findings = ret->n;
	if (!pid)
		return;
	process_facts_find(pid, &process);
	preflight_judge_process(pid, &process, ret);
}

int doctor_preflight(struct doctor *d, struct broker_message *m)
{
	if (m->pid > INT32_MAX)
		return -EINVAL;
	if (m->index == 0)
		list_findings(d, (pid_t)m->pid, &d->findings);
	if (m->index >= d->findings.n)
		return -ENOENT;
	if (m->index < d->n_host_findings)
		m->pid = 0;
	m->finding = d->findings.list[m->index];
	return 0;
}

int doctor_calibrate(struct doctor *d, struct broker_message *m)
{
	bool just_failed = d->calibration_failed_ns &&
			   loop_now() - d->calibration_failed_ns < CALIBRATE_AGAIN_NS;
	int r;

	if (just_failed && !d->calibration.emulated_ns)
		return FAIL(m, -EAGAIN, "%s", d->calibration_failure);
	if (!d->calibrated && !just_failed) {
		r = calibration_measure(d->mode, d->programs, &d->calibration,
					d->calibration_failure, sizeof(d->calibration_failure));
		if (r < 0) {
			log_warning_errno(r, "cannot measure the cost of probes: %s (%m)",
					  d->calibration_failure);
			d->calibration_failed_ns = loop_now();
			/* Keep the result of an earlier measurement. */
			if (!d->calibration.emulated_ns)
				return FAIL(m, r, "%s", d->calibration_failure);
		} else {
			d->calibrated = d->calibration.steady;
			d->calibration_failed_ns = d->calibrated ? 0 : loop_now();
		}
	}
	m->calibration = d->calibration;
	return 0;
}

int doctor_check(const struct doctor *d, char *ret_text, size_t size)
{
	const struct broker_finding *error;
	struct findings findings;
	struct host_facts host;

	judge_host(d, &host, &findings);
	error = preflight_error(&findings);
	if (!error)
		return 0;
	preflight_describe(error, ret_text, size);
	return -EOPNOTSUPP;
}
