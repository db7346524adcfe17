/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rpc/plan_reply.h"

#include <errno.h>
#include <string.h>

#include "daemon/capture/sites.h"
#include "daemon/plan/knowledge.h"
#include "lib/base/macro.h"

/* The message and all that it points to, in one piece of memory for each count. */
struct planned_target {
	Tfprofd__PlannedTarget message;
	Tfprofd__PlannedFile files[TARGET_FILES_MAX], *file_list[TARGET_FILES_MAX];
	Tfprofd__PlannedProbe *probes, **probe_list;
	char **missing;
};

#define THREAD_SWITCH "switch or wake-up of a thread"
#define MESSAGE "call that passes a message at a socket"
#define ANY_CALL "system call of any process of this host"

/* The units in which users count, and the entries that each unit is made of. */
static const struct unit {
	const char *name;
	struct entry_kind {
		enum verb verb;
		enum work work;
		/* The second of two kinds with the same verb. */
		bool other;
	} entries[5];
} units[] = {
	{ "run",
	  { { VERB_OPEN, WORK_RUN },
	    { VERB_CLOSE, WORK_RUN },
	    { VERB_POINT, WORK_RUN },
	    { VERB_ENQUEUE, WORK_RUN },
	    { VERB_DEQUEUE, WORK_RUN } } },
	/* Of nested ones, too. */
	{ "start or end of a block", { { VERB_SWITCH, WORK_RUN } } },
	{ "request",
	  { { VERB_OPEN, WORK_REQUEST },
	    { VERB_CLOSE, WORK_REQUEST },
	    { VERB_POINT, WORK_REQUEST } } },
	{ "op", { { VERB_OPEN, WORK_OP }, { VERB_CLOSE, WORK_OP } } },
	/* A run has at least one, and one for each function that it calls; it works in pieces. */
	{ "executor",
	  { { VERB_ENQUEUE, WORK_PIECE },
	    { VERB_CLOSE, WORK_PIECE },
	    { VERB_OPEN, WORK_PIECE, true } } },
	{ "executor piece", { { VERB_OPEN, WORK_PIECE } } },
	{ "task of a batch",
	  { { VERB_ENQUEUE, WORK_BATCH },
	    { VERB_DEQUEUE, WORK_BATCH },
	    { VERB_FREE, WORK_BATCH } } },
	{ "batch",
	  { { VERB_OPEN, WORK_BATCH },
	    { VERB_POINT, WORK_BATCH },
	    { VERB_POINT, WORK_BATCH, true },
	    { VERB_CLOSE, WORK_BATCH } } },
	{ "work of a child process",
	  { { VERB_ENQUEUE, WORK_CHILD }, { VERB_OPEN, WORK_CHILD }, { VERB_CLOSE, WORK_CHILD } } },
	{ "hand-over of ops", { { VERB_ENQUEUE, WORK_OP } } },
	{ "allocation", { { VERB_OPEN, WORK_ALLOC }, { VERB_CLOSE, WORK_ALLOC } } },
	{ "deallocation", { { VERB_FREE, WORK_ALLOC } } },
	/* A request at a socket has one of the first, and several of the second. */
	{ "stream of gRPC", { { VERB_OPEN, WORK_STREAM }, { VERB_POINT, WORK_STREAM } } },
	{ "answer to a stream", { { VERB_ENQUEUE, WORK_STREAM }, { VERB_DEQUEUE, WORK_STREAM } } },
	/* Each task and callback of an event loop has one of the first, and one of the second
	 * whenever it goes on. */
	{ "new context", { { VERB_ENQUEUE, WORK_CONTEXT } } },
	{ "step in a context", { { VERB_OPEN, WORK_CONTEXT }, { VERB_CLOSE, WORK_CONTEXT } } },
	{ "read of an event loop", { { VERB_POINT, WORK_CONTEXT } } },
	{ "span of the server's own", { { VERB_OPEN, WORK_LABEL }, { VERB_CLOSE, WORK_LABEL } } },
	{ "step of an iterator", { { VERB_OPEN, WORK_STAGE }, { VERB_CLOSE, WORK_STAGE } } },
	{ "call in a library that encrypts",
	  { { VERB_OPEN, WORK_PLAIN }, { VERB_CLOSE, WORK_PLAIN } } },
	/* Recorded without probes. */
	{ THREAD_SWITCH, {} },
	{ MESSAGE, {} },
	{ ANY_CALL, {} },
};

struct plan_reply {
	Tfprofd__PlanReply message;
	Tfprofd__Cost costs[ARRAY_SIZE(units)], *cost_list[ARRAY_SIZE(units)];
	Tfprofd__Calibration calibration;
	Tfprofd__PlannedTarget *list[RECORD_MAX_TARGETS];
	struct planned_target targets[RECORD_MAX_TARGETS];
};

static const char *class_name(enum site_class class)
{
	static const char *const names[] = {
		[SITE_EMULATED] = "emulated",
		[SITE_SINGLE_STEPPED] = "single-stepped",
		[SITE_REFUSED] = "refused",
	};

	return names[class];
}

static bool is_planted(const struct capture_plan *plan, const struct prepared *p,
		       const struct plan_site *site)
{
	const struct probe_row *row = p->target.packs->rows[site->spec];

	return prepared_wants(p, site, &plan->detail) &&
	       !(plan->left_out & 1u << probe_kind_of_row(row));
}

static void fill_probe(const struct capture_plan *plan, const struct prepared *p, unsigned file,
		       const struct plan_site *site, Tfprofd__PlannedProbe *m)
{
	const struct probe_row *spec = p->target.packs->rows[site->spec];

	*m = (Tfprofd__PlannedProbe)TFPROFD__PLANNED_PROBE__INIT;
	m->kind = (char *)probe_kind_name(probe_kind_of_row(spec));
	m->symbol = site->symbol;
	m->file = file;
	m->function = site->function;
	m->offset = site->offset;
	m->instruction = (char *)site->site.text;
	m->class_ = (char *)class_name(site->site.class);
	m->cost_ns = forecast_site(&plan->forecast, site);
	m->source = (char *)symbol_source_name(site->source);
	m->semaphore = site->semaphore;
	m->planted = is_planted(plan, p, site);
	m->may_repeat = site->site.may_repeat;
	m->at_return = spec->at_return;
	if (prepared_refusal(p, site))
		m->reason = (char *)prepared_refusal(p, site);
}

static int add_missing(const struct capture_plan *plan, const struct prepared *p,
		       struct planned_target *t)
{
	unsigned counts[KIND_COUNT];
	char text[256];

	t->missing = calloc(p->target.packs->n_rows + KIND_COUNT, sizeof(t->missing[0]));
	if (!t->missing)
		return -ENOMEM;
	t->message.not_shown = t->missing;
	sites_count(p, &plan->detail, counts);
	for (enum probe_kind kind = 0; kind < KIND_COUNT; kind++) {
		if (!(plan->left_out & 1u << kind) || !counts[kind])
			continue;
		sites_explain(kind, counts[kind], sites_room(&plan->forecast), text, sizeof(text));
		t->missing[t->message.n_not_shown] = strdup(text);
		if (!t->missing[t->message.n_not_shown++])
			return -ENOMEM;
	}
	for (unsigned spec = 0; prepared_next_missing(p, &plan->detail, &spec, text, sizeof(text));
	     t->message.n_not_shown++) {
		t->missing[t->message.n_not_shown] = strdup(text);
		if (!t->missing[t->message.n_not_shown])
			return -ENOMEM;
	}
	return 0;
}

static int fill_target(const struct capture_plan *plan, const struct prepared *p,
		       struct planned_target *t)
{
	unsigned knowledge = KNOWLEDGE_PLANNED;
	size_t n_probes = 0, n = 0;

	for (unsigned f = 0; f < p->n_files; f++)
		n_probes += p->files[f].plan->n_sites;
	t->message = (Tfprofd__PlannedTarget)TFPROFD__PLANNED_TARGET__INIT;
	t->message.pid = (uint32_t)p->target.pid;
	t->message.name = (char *)p->target.name;
	t->message.runtime = (char *)p->target.packs->name;
	t->message.version = (char *)p->target.version;
	t->probes = calloc(MAX(n_probes, (size_t)1), sizeof(t->probes[0]));
	t->probe_list = calloc(MAX(n_probes, (size_t)1), sizeof(t->probe_list[0]));
	if (!t->probes || !t->probe_list)
		return -ENOMEM;
	for (unsigned f = 0; f < p->n_files; f++) {
		const struct prepared_file *file = &p->files[f];
		Tfprofd__PlannedFile *m = &t->files[f];

		*m = (Tfprofd__PlannedFile)TFPROFD__PLANNED_FILE__INIT;
		m->path = (char *)p->target.files[f].path;
		m->build_id = file->plan->build_id;
		m->device = file->opened.device;
		m->inode = file->opened.inode;
		m->size = file->opened.size;
		m->known = file->known;
		knowledge |= knowledge_of_plan(file->plan, p->target.version);
		t->file_list[f] = m;
		for (unsigned i = 0; i < file->plan->n_sites; i++) {
			const struct plan_site *site = &file->plan->sites[i];
			const struct probe_row *row = p->target.packs->rows[site->spec];

			/* Not a probe, or one of other releases. */
			if (row->work == WORK_SCRIPT || !row_is_of_release(row, p->target.version))
				continue;
			fill_probe(plan, p, f, site, &t->probes[n]);
			t->probe_list[n] = &t->probes[n];
			n++;
		}
	}
	t->message.knowledge = (char *)knowledge_name(knowledge);
	t->message.n_files = p->n_files;
	t->message.files = t->file_list;
	t->message.n_probes = n;
	t->message.probes = t->probe_list;
	return add_missing(plan, p, t);
}

static bool is_entry(const struct probe_row *row, const struct entry_kind *kind)
{
	bool other = row->last || row->async ||
		     (row_is(row, VERB_POINT, WORK_BATCH) && row->value2.argument);

	return row_is(row, kind->verb, kind->work) && other == kind->other;
}

/* Of the most expensive attached site with such a row; 0: there is none. */
static uint32_t cost_of_entry(const struct capture_plan *plan, const struct entry_kind *kind)
{
	uint32_t cost = 0;

	for (unsigned t = 0; t < plan->n_targets; t++)
		for (unsigned f = 0; f < plan->targets[t].n_files; f++) {
			const struct plan *p = plan->targets[t].files[f].plan;

			for (unsigned i = 0; i < p->n_sites; i++)
				if (is_entry(p->packs->rows[p->sites[i].spec], kind) &&
				    is_planted(plan, &plan->targets[t], &p->sites[i]))
					cost = MAX(cost,
						   forecast_site(&plan->forecast, &p->sites[i]));
		}
	return cost;
}

static uint32_t cost_without_probes(const struct capture_plan *plan, const char *unit)
{
	const struct broker_calibration *c = &plan->forecast.calibration;

	if (!strcmp(unit, THREAD_SWITCH))
		return plan->detail.level >= 2 ? c->switch_ns : 0;
	if (!capture_plan_follows_sockets(plan))
		return 0;
	return !strcmp(unit, MESSAGE) ? c->call_ns : c->any_call_ns;
}

static void add_costs(const struct capture_plan *plan, struct plan_reply *reply)
{
	reply->message.costs = reply->cost_list;
	for (size_t u = 0; u < ARRAY_SIZE(units); u++) {
		Tfprofd__Cost *m = &reply->costs[reply->message.n_costs];

		*m = (Tfprofd__Cost)TFPROFD__COST__INIT;
		m->unit = (char *)units[u].name;
		for (size_t i = 0;
		     i < ARRAY_SIZE(units[u].entries) && units[u].entries[i].verb != VERB_NONE;
		     i++) {
			uint32_t cost = cost_of_entry(plan, &units[u].entries[i]);

			m->cost_ns += cost;
			m->probes += cost > 0;
		}
		if (units[u].entries[0].verb == VERB_NONE)
			m->cost_ns = cost_without_probes(plan, units[u].name);
		if (m->cost_ns)
			reply->cost_list[reply->message.n_costs++] = m;
	}
}

int plan_reply_new(const struct capture_plan *plan, Tfprofd__PlanReply **ret)
{
	struct plan_reply *reply = calloc(1, sizeof(*reply));
	int r = 0;

	if (!reply)
		return -ENOMEM;
	reply->message = (Tfprofd__PlanReply)TFPROFD__PLAN_REPLY__INIT;
	reply->calibration = (Tfprofd__Calibration)TFPROFD__CALIBRATION__INIT;
	reply->calibration.emulated_ns = plan->forecast.calibration.emulated_ns;
	reply->calibration.stepped_ns = plan->forecast.calibration.stepped_ns;
	reply->calibration.switch_ns = plan->forecast.calibration.switch_ns;
	reply->calibration.measured = plan->forecast.measured;
	reply->calibration.perf_events = plan->forecast.perf_events;
	reply->calibration.detach_us = plan->forecast.calibration.detach_us;
	reply->message.calibration = &reply->calibration;
	add_costs(plan, reply);
	reply->message.targets = reply->list;
	for (unsigned i = 0; i < plan->n_targets && r >= 0; i++) {
		reply->list[i] = &reply->targets[i].message;
		reply->message.n_targets++;
		r = fill_target(plan, &plan->targets[i], &reply->targets[i]);
	}
	if (r < 0) {
		plan_reply_free(&reply->message);
		return r;
	}
	*ret = &reply->message;
	return 0;
}

Tfprofd__PlanReply *plan_reply_free(Tfprofd__PlanReply *message)
{
	struct plan_reply *reply = container_of(message, struct plan_reply, message);

	if (!message)
		return NULL;
	for (size_t i = 0; i < message->n_targets; i++) {
		struct planned_target *t = &reply->targets[i];

		for (size_t k = 0; t->missing && k < t->message.n_not_shown; k++)
			free(t->missing[k]);
		free(t->missing);
		free(t->probes);
		free(t->probe_list);
	}
	free(reply);
	return NULL;
}
