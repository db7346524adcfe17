/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow by doubling. */
#pragma once

#include <errno.h>
#include <stdlib.h>

/*
 * Makes room for more elements behind the used ones; array is the address of the pointer, allocated
 * counts elements, and both start as zeros. -ENOMEM leaves everything as it was.
 */
static inline int array_reserve(void *array, size_t used, size_t *allocated, size_t element_size,
				size_t more)
{
	size_t wanted = *allocated ? *allocated : 16;
	void **p = array, *new;

	if (used + more <= *allocated)
		return 0;
	while (wanted < used + more)
		wanted *= 2;
	new = reallocarray(*p, wanted, element_size);
	if (!new)
		return -ENOMEM;
	*p = new;
	*allocated = wanted;
	return 0;
}
