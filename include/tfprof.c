/* SPDX-License-Identifier: Apache-2.0 */
/* The marks of include/tfprof.h as functions, for languages without a preprocessor: libtfprof.so,
 * which tfprofd recognizes by its name. */
#include <stdint.h>

#include "include/tfprof.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT void tfprof_begin_span(const char *text, unsigned long bytes);
EXPORT void tfprof_end_span(void);
EXPORT void tfprof_begin_request(uint64_t id);
EXPORT void tfprof_end_request(void);
EXPORT void tfprof_make_work(uint64_t id);
EXPORT void tfprof_begin_work(uint64_t id);
EXPORT void tfprof_end_work(uint64_t id);

void tfprof_begin_span(const char *text, unsigned long bytes)
{
	tfprof_span_begin(text, bytes);
}

void tfprof_end_span(void)
{
	tfprof_span_end();
}

void tfprof_begin_request(uint64_t id)
{
	TFPROF_PROBE(tfprof, request_begin, id);
}

void tfprof_end_request(void)
{
	TFPROF_PROBE(tfprof, request_end);
}

void tfprof_make_work(uint64_t id)
{
	tfprof_work_made(id);
}

void tfprof_begin_work(uint64_t id)
{
	tfprof_work_begin(id);
}

void tfprof_end_work(uint64_t id)
{
	tfprof_work_end(id);
}
