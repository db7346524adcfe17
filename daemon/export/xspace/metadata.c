/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/export/xspace/metadata.h"

#include "daemon/export/xspace/writer.h"

int metadata_write(struct writer *w, const struct modules *m)
{
	uint32_t stat = 0;
	int r;

	if (!m || !m->n)
		return 0;
	r = writer_plane_begin(w, PLANE_METADATA, "/host:metadata");
	(void)xspace_stat_name(w->xspace, "Hlo Proto", &stat);
	for (unsigned i = 0; i < m->n && r >= 0; i++)
		r = xspace_event_bytes(w->xspace, m->list[i].id, m->list[i].name, stat,
				       m->list[i].bytes, m->list[i].size);
	return r < 0 ? r : xspace_plane_end(w->xspace);
}
