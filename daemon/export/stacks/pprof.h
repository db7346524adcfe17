/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampled stacks as a gzipped profile of pprof (lib/proto/profile.proto): each sample with its
 * thread and process and, where they are known, its operation, phase and request as labels.
 */
#pragma once

#include "daemon/export/exporter.h"

extern const struct exporter pprof_exporter;
