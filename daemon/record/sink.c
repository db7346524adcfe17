/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/record/sink.h"

#include <assert.h>

/* Calls one function of each sink that implements it. */
#define CALL_EACH(sinks, function, ...)                                                            \
	({                                                                                         \
		int call_r = 0;                                                                    \
                                                                                                   \
		for (unsigned call_i = 0; call_i < (sinks)->n && call_r >= 0; call_i++) {          \
			const struct record_sink *sink = (sinks)->list[call_i];                    \
                                                                                                   \
			if (sink->function)                                                        \
				call_r = sink->function(__VA_ARGS__, sink->data);                  \
		}                                                                                  \
		call_r;                                                                            \
	})

void sinks_add(struct record_sinks *sinks, const struct record_sink *sink)
{
	assert(sinks->n < RECORD_SINKS_MAX);
	sinks->list[sinks->n++] = sink;
}

int sinks_begin(const struct record_sinks *sinks, uint64_t start_ns)
{
	return CALL_EACH(sinks, begin, start_ns);
}

int sinks_target(const struct record_sinks *sinks, const struct correlate_target *target)
{
	return CALL_EACH(sinks, target, target);
}

int sinks_layout(const struct record_sinks *sinks, unsigned target, unsigned named,
		 const struct record_layout *layout)
{
	return CALL_EACH(sinks, layout, target, named, layout);
}

int sinks_shed(const struct record_sinks *sinks, enum probe_kind kind, uint64_t time,
	       const char *text)
{
	return CALL_EACH(sinks, shed, kind, time, text);
}

int sinks_resume(const struct record_sinks *sinks, enum probe_kind kind, uint64_t time)
{
	return CALL_EACH(sinks, resume, kind, time);
}

int sinks_loss(const struct record_sinks *sinks, uint64_t from, uint64_t to, uint64_t n)
{
	return CALL_EACH(sinks, loss, from, to, n);
}

int sinks_recall(const struct record_sinks *sinks, const struct record *record)
{
	return CALL_EACH(sinks, recall, record);
}

int sinks_record(const struct record_sinks *sinks, const struct record *record)
{
	return CALL_EACH(sinks, record, record);
}
