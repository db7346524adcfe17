/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow by doubling. */
#pragma once

#include <stddef.h>

/*
 * Makes room for more elements after the used ones; array is the address of the pointer, allocated
 * counts elements, and both are initially zero. -ENOMEM leaves everything unchanged.
 */
int array_reserve(void *array, size_t used, size_t *allocated, size_t element_size, size_t more);
