/* SPDX-License-Identifier: Apache-2.0 */
/* What this host, its kernel and a process offer, as the front requests it, and what probes cost
 * here. What does not change is found out once. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/broker/doctor/facts.h"
#include "daemon/broker/doctor/preflight.h"
#include "daemon/broker/message.h"

struct doctor {
	enum attach_mode mode;
	bool sideband;
	struct program_cache *programs; /* borrowed */
	/* Of this kernel; they do not change. */
	struct bpf_facts bpf;
	bool tracepoint_known, programs_loaded, calibrated;
	struct broker_calibration calibration;
	uint64_t calibration_failed_ns; /* 0: it did not */
	char calibration_failure[128];  /* the reason */
	struct findings findings;       /* the list being requested */
	unsigned n_host_findings;       /* they come first in it */
};

/* BROKER_PREFLIGHT: the list is made when its first finding is requested. */
int doctor_preflight(struct doctor *d, struct broker_message *m);
/* BROKER_CALIBRATE. Runs once in the broker's lifetime. No other request is served meanwhile: its
 * cost would be measured, too. */
int doctor_calibrate(struct doctor *d, struct broker_message *m);
/* Whether this host can be captured on at all. -EOPNOTSUPP, with the remedy in ret_text. */
int doctor_check(const struct doctor *d, char *ret_text, size_t size);
