/* What a trace says in sentences: errors, advice, what is cut, warnings. Readers show them on Overview and Input Pipeline Analysis. */
#pragma once

#include "daemon/export/export.h"

struct writer;

/* The window's host name, too. 0, or as the writer's. */
int messages_write(struct writer *w, const struct export_options *options);
