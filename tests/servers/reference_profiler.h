/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow's in-process profiler, which tensorflow_model_server starts too: what tests compare
 * captures with. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* Listens on every address at this port, for the rest of the process; TensorFlow logs when it
 * cannot. */
void reference_profiler_start(int port);
void reference_profiler_stop(void);
/* From now on its captures have allocations, which cost the process a lock each. */
void reference_profiler_see_allocations(void);

#ifdef __cplusplus
}
#endif
