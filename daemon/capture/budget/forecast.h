/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of a probe hit on this machine: measured once per boot, by the broker. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/plan/plan.h"
#include "daemon/proxy/proxy.h"

struct forecast {
	struct broker_calibration calibration;
	bool perf_events;  /* probes are perf events, one for each */
	bool measured;     /* otherwise the figures are those of another machine */
	char failure[128]; /* why they were not measured */
};

/*
 * From the directory, if it was measured already since this boot, else from the broker, which takes
 * about 0.2 s. directory: -1: none. Never fails: .measured shows whether it worked. May be called
 * from any thread.
 */
void forecast_get(struct proxy *proxy, int directory, struct forecast *ret);
/* The cost of a hit in nanoseconds, including its record; 0 for a site that is refused. */
uint32_t forecast_site(const struct forecast *forecast, const struct plan_site *site);
