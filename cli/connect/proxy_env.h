/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether TensorBoard, started in this environment, would connect to the daemon through a proxy.
 * gRPC's C core uses the first of grpc_proxy, https_proxy and http_proxy that is set, for every
 * address, even localhost, that no_grpc_proxy, else no_proxy, does not list
 * (doc/environment_variables.md of gRPC). It reads the names in lower case only.
 */
#pragma once

/* The name of the variable with the proxy; NULL: no proxy is used. get is getenv() outside
 * tests. */
const char *proxy_env_find(char *(*get)(const char *name));
