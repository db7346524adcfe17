/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/exporter.h"

#include <string.h>

#include "daemon/export/stacks/folded.h"
#include "daemon/export/stacks/pprof.h"
#include "daemon/export/xspace/export.h"

const struct exporter *const exporters[] = {
	&xspace_exporter,
	&folded_exporter,
	&pprof_exporter,
	NULL,
};

const struct exporter *exporter_find(const char *name)
{
	if (!*name)
		return exporters[0];
	for (const struct exporter *const *e = exporters; *e; e++)
		if (!strcmp((*e)->name, name))
			return *e;
	return NULL;
}

void exported_done(struct exported *exported)
{
	if (exported->free)
		exported->free(exported);
	*exported = (struct exported){};
}
