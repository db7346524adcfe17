/* SPDX-License-Identifier: Apache-2.0 */
/* The services of the daemon, on every listener: TensorBoard's ProfilerService, tfprofctl's
 * Control, and gRPC's own health and reflection. */
#pragma once

#include "daemon/rpc/context.h"

/* Memory in which the services note whose the ports of single targets are, for the front that
 * follows this one: a descriptor, or an error of memfd_create(2). */
int service_ports_new(void);
int service_new(const struct service_options *options, struct service **ret);
/* Serves every target on the listener with this index. */
int service_listen(struct service *s, unsigned index);
/* Ports that an earlier front listened at, and that belong to no process any more, are closed. */
void service_close_ports(struct service *s);
/* Replaces the configuration; borrowed. The broker has its rules already: clients are what they are
 * by these, and captures of all processes add those that their clients may profile now. */
void service_set_config(struct service *s, const struct config *config);
/* New connections under TLS use this; borrowed. */
void service_set_tls(struct service *s, struct grpc_tls *tls);
/* Another broker answers the proxy: it gets the connections of the clients that it knows. */
void service_renew(struct service *s);
/* Ends the open windows, answers, and then ends the loop. */
void service_stop(struct service *s);
struct service *service_free(struct service *s);
