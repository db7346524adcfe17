/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/array.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ARRAY_FIRST 16

int array_reserve(void *array, size_t used, size_t *allocated, size_t element_size, size_t more)
{
	size_t wanted = *allocated ? *allocated : ARRAY_FIRST;
	void *old, *new;

	if (more <= *allocated - used)
		return 0;
	while (wanted - used < more) {
		if (wanted > SIZE_MAX / 2)
			return -ENOMEM;
		wanted *= 2;
	}
	memcpy(&old, array, sizeof(old));
	new = reallocarray(old, wanted, element_size);
	if (!new)
		return -ENOMEM;
	memcpy(array, &new, sizeof(new));
	*allocated = wanted;
	return 0;
}
