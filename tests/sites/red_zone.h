/* SPDX-License-Identifier: Apache-2.0 */
/* Leaf functions with live data below the stack pointer around a nop of five bytes. */
#pragma once

#include <stdbool.h>

/* Prints a line for each test; adds to *passed and *failed. */
void red_zone_check(unsigned *passed, unsigned *failed);
