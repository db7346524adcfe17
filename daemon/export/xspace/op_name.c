/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/xspace/op_name.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/export/summary/op_category.h"
#include "daemon/timeline/names.h"
#include "include/record_types.h"
#include "lib/base/macro.h"

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
/* A prefix each for name and type, and the end. */
#define SHOWN_SIZE (RECORD_NAME_SIZE + RECORD_TYPE_SIZE + 8)
#define WORD LETTERS "abcdefghijklmnopqrstuvwxyz0123456789_"

/* Copies it with a prefix, if it must not begin as it does. */
static char *put(char *to, const char *from, size_t n, const char *firsts, char prefix,
		 const char *others)
{
	if (!n || !strchr(firsts, from[0]))
		*to++ = prefix;
	for (size_t i = 0; i < n; i++)
		*to++ = strchr(others, from[i]) ? from[i] : '_';
	return to;
}

const char *op_name_shown(const struct span_name *name, char *buffer, size_t size)
{
	const char *type = name->display ? op_type(name) : NULL;
	size_t length = strlen(name->name);
	char *p = buffer;

	/* The runtime's own profiler has TensorFlow's _Arg and _Retval under such names, too, which
	 * keeps them out of the pages. Of the length: a prefix each, and the end. */
	if (!type || name->name[0] == '_' || strcmp(type, name->display) || length + 3 > size)
		return name->name;
	p = put(p, name->name, (size_t)(type - 1 - name->name),
		LETTERS "abcdefghijklmnopqrstuvwxyz0123456789.", '.', WORD ".\\/>-");
	*p++ = ':';
	p = put(p, type, strlen(type), LETTERS "_", '_', WORD);
	*p = 0;
	return buffer;
}

/* The text, or, where another name has it, with a number that no other name gets. */
static int make_distinct(struct names *taken, const char *text, uint32_t number, char **ret)
{
	const char *colon = strrchr(text, ':');
	_cleanup_free_ char *distinct = strdup(text);
	uint32_t index;
	int r;

	for (; distinct && names_has(taken, distinct); number++) {
		free(distinct);
		if (asprintf(&distinct, "%.*s_%u%s", (int)(colon - text), text, number, colon) < 0)
			distinct = NULL;
	}
	if (!distinct)
		return -ENOMEM;
	r = names_add(taken, distinct, NULL, false, false, &index);
	if (r >= 0)
		*ret = TAKE_PTR(distinct);
	return r;
}

/* Whether a name is shown as another text, which is written to the buffer. */
static bool is_changed(const struct span_name *name, char buffer[static SHOWN_SIZE])
{
	return strcmp(op_name_shown(name, buffer, SHOWN_SIZE), name->name) != 0;
}

static int fill(const struct timeline *t, struct names *taken, char **shown)
{
	char buffer[SHOWN_SIZE];
	uint32_t index;
	int r = 0;

	for (uint32_t i = 0; i < t->n_names && r >= 0; i++)
		if (!is_changed(&t->names[i], buffer))
			r = names_add(taken, t->names[i].name, NULL, false, false, &index);
	for (uint32_t i = 0; i < t->n_names && r >= 0; i++)
		if (is_changed(&t->names[i], buffer))
			r = make_distinct(taken, buffer, i, &shown[i]);
	return r;
}

int op_names_make(const struct timeline *t, char ***ret)
{
	char **shown = calloc((size_t)t->n_names + 1, sizeof(shown[0]));
	struct names taken = {};
	int r;

	if (!shown)
		return -ENOMEM;
	r = fill(t, &taken, shown);
	names_done(&taken);
	if (r < 0)
		op_names_free(t, shown);
	else
		*ret = shown;
	return r;
}

void op_names_free(const struct timeline *t, char **shown)
{
	for (uint32_t i = 0; shown && i < t->n_names; i++)
		free(shown[i]);
	free(shown);
}
