/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/recorder/trigger.h"

#include <inttypes.h>
#include <stdio.h>

#include "lib/base/duration.h"
#include "lib/base/glob.h"
#include "lib/base/macro.h"

#define STATUS_SERVER_ERROR 500

/* The statuses of gRPC that are a server's failure (as OpenTelemetry has it): UNKNOWN,
 * DEADLINE_EXCEEDED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS. */
static bool has_failed(const struct finished_request *q)
{
	static const unsigned failures =
		1u << 2 | 1u << 4 | 1u << 12 | 1u << 13 | 1u << 14 | 1u << 15;

	return q->status >= STATUS_SERVER_ERROR ||
	       (q->grpc_status > 0 && q->grpc_status < 32 && failures >> q->grpc_status & 1);
}

static uint64_t latency_of(const struct finished_request *q)
{
	return q->end_ns - q->start_ns;
}

static bool is_bad(const struct trigger_rule *rule, const struct finished_request *q)
{
	return rule->condition == TRIGGER_ERRORS ? has_failed(q) : latency_of(q) > rule->latency_ns;
}

/* The pane of that time; those that have left the window are empty again. */
static struct trigger_pane *pane_at(const struct trigger_rule *rule, struct trigger_state *state,
				    uint64_t now)
{
	uint64_t number = now / MAX(rule->window_ns / TRIGGER_PANES, UINT64_C(1));

	if (number > state->newest) {
		for (uint64_t i = 0; i < MIN(number - state->newest, (uint64_t)TRIGGER_PANES); i++)
			state->panes[(number - i) % TRIGGER_PANES] = (struct trigger_pane){};
		state->newest = number;
	}
	/* One that ended earlier counts now. */
	return &state->panes[state->newest % TRIGGER_PANES];
}

static struct trigger_pane sum(const struct trigger_state *state)
{
	struct trigger_pane all = {};

	for (unsigned i = 0; i < TRIGGER_PANES; i++) {
		all.n += state->panes[i].n;
		all.n_bad += state->panes[i].n_bad;
		all.worst_ns = MAX(all.worst_ns, state->panes[i].worst_ns);
	}
	return all;
}

static bool is_met(const struct trigger_rule *rule, const struct trigger_pane *all)
{
	switch (rule->condition) {
	case TRIGGER_LATENCY:
		return all->n_bad >= rule->requests;
	case TRIGGER_P99:
		return all->n >= rule->requests && all->n_bad * 100 > all->n;
	case TRIGGER_ERRORS:
		return all->n >= rule->requests &&
		       (double)all->n_bad * 100 > rule->percent * (double)all->n;
	default:
		return false;
	}
}

static void explain(const struct trigger_rule *rule, const struct trigger_pane *all,
		    const char *model, char ret[static TRIGGER_REASON_SIZE])
{
	char limit[DURATION_TEXT], worst[DURATION_TEXT], window[DURATION_TEXT];
	int n = model ? snprintf(ret, TRIGGER_REASON_SIZE, "model %.100s: ", model) : 0;
	size_t size = TRIGGER_REASON_SIZE - (size_t)n;

	ret += n;
	duration_text(rule->latency_ns, limit);
	duration_text(all->worst_ns, worst);
	duration_text(rule->window_ns, window);
	if (rule->condition == TRIGGER_ERRORS)
		snprintf(ret, size,
			 "%" PRIu64 " of %" PRIu64 " requests within %s failed, above %.4g %%",
			 all->n_bad, all->n, window, rule->percent);
	else if (rule->condition == TRIGGER_P99)
		snprintf(ret, size,
			 "the 99th percentile of %" PRIu64
			 " requests within %s is above %s, the slowest took %s",
			 all->n, window, limit, worst);
	else if (rule->requests == 1)
		snprintf(ret, size, "a request took %s, above %s", worst, limit);
	else
		snprintf(ret, size,
			 "%" PRIu64 " requests within %s took longer than %s, the slowest %s",
			 all->n_bad, window, limit, worst);
}

bool trigger_on_request(const struct trigger_rule *rule, struct trigger_state *state,
			const struct finished_request *q,
			char ret_reason[static TRIGGER_REASON_SIZE])
{
	struct trigger_pane *pane, all;

	if (rule->condition == TRIGGER_QUEUE ||
	    (*rule->model && !(q->model && glob_matches(rule->model, q->model))))
		return false;
	pane = pane_at(rule, state, q->end_ns);
	pane->n++;
	if (is_bad(rule, q)) {
		pane->n_bad++;
		pane->worst_ns = MAX(pane->worst_ns, latency_of(q));
	}
	all = sum(state);
	if (!is_met(rule, &all))
		return false;
	explain(rule, &all, q->model, ret_reason);
	*state = (struct trigger_state){ .newest = state->newest };
	return true;
}

bool trigger_on_queue(const struct trigger_rule *rule, struct trigger_state *state, uint32_t n,
		      char ret_reason[static TRIGGER_REASON_SIZE])
{
	bool was_above = state->is_above;

	if (rule->condition != TRIGGER_QUEUE)
		return false;
	state->is_above = n > rule->queue;
	if (!state->is_above || was_above)
		return false;
	snprintf(ret_reason, TRIGGER_REASON_SIZE,
		 "%" PRIu32 " requests are in progress, above %" PRIu32, n, rule->queue);
	return true;
}
