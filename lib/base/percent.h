/* SPDX-License-Identifier: Apache-2.0 */
/* Percentages as users write them. */
#pragma once

/*
 * Reads "1", "0.5", "20%" as a percentage. -EINVAL if the text is not one, -ERANGE if it is 0,
 * negative or more than 100.
 */
int percent_parse(const char *text, double *ret);
