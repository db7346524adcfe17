/* SPDX-License-Identifier: Apache-2.0 */
/* A server with another runtime has none of TensorFlow's. */
#include "tests/servers/reference_profiler.h"

void reference_profiler_start(int port)
{
	(void)port;
}

void reference_profiler_stop(void)
{
}

void reference_profiler_see_allocations(void)
{
}
