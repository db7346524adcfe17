/* SPDX-License-Identifier: Apache-2.0 */
/* The line of sampled stacks: an instant for each sample. */
#pragma once

#include "daemon/export/xspace/writer.h"

int samples_write(struct writer *w);
