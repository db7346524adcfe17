/* SPDX-License-Identifier: Apache-2.0 */
/* The services of the daemon, on every listener: TensorBoard's ProfilerService, tfprofctl's
 * Control, and gRPC's own health and reflection. */
#pragma once

#include "daemon/rpc/context.h"

int service_new(const struct service_options *options, struct service **ret);
/* Serves every target on the listener with this index. */
int service_listen(struct service *s, unsigned index);
/* Replaces the configuration; borrowed. */
void service_set_config(struct service *s, const struct config *config);
/* New connections under TLS use this; borrowed. */
void service_set_tls(struct service *s, struct grpc_tls *tls);
/* Another broker answers the proxy: it gets the connections of the clients that it knows. */
void service_renew(struct service *s);
/* Ends the open windows, answers, and then ends the loop. */
void service_stop(struct service *s);
struct service *service_free(struct service *s);
