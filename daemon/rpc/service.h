/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon answers, on every listener: TensorBoard's ProfilerService, tfprofctl's Control,
 * and gRPC's own health and reflection. */
#pragma once

#include "daemon/rpc/context.h"

int service_new(const struct service_options *options, struct service **ret);
/* Serves every target on the listener with this index. */
int service_listen(struct service *s, unsigned index);
/* From now on it is configured otherwise; borrowed. */
void service_set_config(struct service *s, const struct config *config);
/* New connections under TLS are made with this; borrowed. */
void service_set_tls(struct service *s, struct grpc_tls *tls);
/* Ends the windows that are open, answers, and then ends the loop. */
void service_stop(struct service *s);
struct service *service_free(struct service *s);
