/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rpc/settle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/rpc/choose.h"
#include "lib/base/macro.h"

/* The longest time that a call waits. */
#define WAIT_NS 30000000000ull
/* If it names no process: those of others must not delay it for long. */
#define WAIT_FOR_ALL_NS 2000000000ull
#define LOOK_NS 10000000ull

struct settling {
	struct service *service;
	struct grpc_call *call;
	settle_handler handler;
	uint8_t *message;
	size_t size;
	struct authority_peer who;
	uint32_t *pids;
	size_t n_pids;
	uint64_t until_ns;
	struct loop_timer *timer;
	struct settling *next;
};

static void settling_free(struct settling *w)
{
	for (struct settling **i = &w->service->settling; *i; i = &(*i)->next)
		if (*i == w) {
			*i = w->next;
			break;
		}
	loop_timer_free(w->timer);
	free(w->message);
	free(w->pids);
	free(w);
}

void settle_free(struct service *s)
{
	while (s->settling)
		settling_free(s->settling);
}

static bool is_settled(const struct settling *w)
{
	struct named named = {};

	if (loop_now() >= w->until_ns)
		return true;
	for (size_t i = 0; i < w->n_pids && named.error != -EINPROGRESS; i++)
		if (w->pids[i] <= INT32_MAX)
			choose_named(w->service, w->call, (unsigned)i, (pid_t)w->pids[i], &named);
	return w->n_pids ? named.error != -EINPROGRESS
			 : !targets_are_read(w->service->targets, &w->who);
}

static void on_timer(void *data)
{
	struct settling *w = data;
	struct service *s = w->service;

	if (!is_settled(w)) {
		loop_timer_set(w->timer, loop_now() + LOOK_NS);
		return;
	}
	grpc_call_on_cancel(w->call, NULL, NULL);
	s->is_settled = true;
	w->handler(w->call, w->message, w->size, s);
	s->is_settled = false;
	settling_free(w);
}

static void on_cancelled(void *data)
{
	settling_free(data);
}

static struct settling *settling_new(struct service *s, const uint8_t *message, size_t size,
				     const uint32_t *pids, size_t n_pids)
{
	struct settling *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->service = s;
	w->message = malloc(MAX(size, (size_t)1));
	w->pids = calloc(MAX(n_pids, (size_t)1), sizeof(w->pids[0]));
	if (!w->message || !w->pids ||
	    loop_timer_new(s->options.loop, on_timer, w, &w->timer) < 0) {
		settling_free(w);
		return NULL;
	}
	if (size)
		memcpy(w->message, message, size);
	if (n_pids)
		memcpy(w->pids, pids, n_pids * sizeof(pids[0]));
	w->size = size;
	w->n_pids = n_pids;
	return w;
}

bool settle(struct service *s, struct grpc_call *call, settle_handler handler,
	    const uint8_t *message, size_t size, const uint32_t *pids, size_t n_pids)
{
	const struct port *port = grpc_call_listener(call);
	const struct peer *peer = grpc_call_peer(call);
	struct settling *w;

	/* The port of a process is open once it is a target. */
	if (s->is_settled || !peer || !port || (port->pid && !n_pids))
		return false;
	if (!n_pids)
		targets_scan(s->targets);
	w = settling_new(s, message, size, pids, MIN(n_pids, (size_t)RECORD_MAX_TARGETS));
	if (!w)
		return false;
	w->call = call;
	w->handler = handler;
	w->who = peer->who;
	w->until_ns = loop_now() + (n_pids ? WAIT_NS : WAIT_FOR_ALL_NS);
	if (is_settled(w) || grpc_call_on_cancel(call, on_cancelled, w) < 0) {
		settling_free(w);
		return false;
	}
	w->next = s->settling;
	s->settling = w;
	loop_timer_set(w->timer, loop_now() + LOOK_NS);
	return true;
}
