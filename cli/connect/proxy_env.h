/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether TensorBoard's client, started from this environment, would ask a proxy for the daemon:
 * gRPC's C core takes grpc_proxy, https_proxy or http_proxy, the first that is set, for every
 * address that no_grpc_proxy, else no_proxy, does not name, this host's own too
 * (doc/environment_variables.md of gRPC). It reads the names in lower case only.
 */
#pragma once

/* The name of the variable that does it; NULL: none. get is getenv(), or stands for it. */
const char *proxy_env_find(char *(*get)(const char *name));
