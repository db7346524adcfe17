/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow by doubling. */
#pragma once

#include <stddef.h>

/*
 * Makes room for more elements behind the used ones; array is the address of the pointer, allocated
 * counts elements, and both start as zeros. -ENOMEM leaves everything as it was.
 */
int array_reserve(void *array, size_t used, size_t *allocated, size_t element_size, size_t more);
