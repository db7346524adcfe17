/* SPDX-License-Identifier: Apache-2.0 */
/* Shares as people write them. */
#pragma once

/*
 * Reads "1", "0.5", "20%" as so many percent. -EINVAL when it is no such text, -ERANGE when it is
 * 0, negative or more than 100.
 */
int percent_parse(const char *text, double *ret);
