/* SPDX-License-Identifier: Apache-2.0 */
/* The record format for user space, which has the fixed-width types from the kernel's headers. */
#pragma once

#include <linux/types.h>

#include "include/record.h"
