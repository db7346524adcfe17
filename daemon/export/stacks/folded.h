/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampled stacks as text for flame graphs: a line for each stack, "thread;outermost;…;innermost
 * count". Threads of one name are one; functions of the kernel end with "_[k]", as flamegraph.pl
 * colors them.
 */
#pragma once

#include "daemon/export/exporter.h"

extern const struct exporter folded_exporter;
