/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rpc/health.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/rpc/reply.h"
#include "lib/base/share.h"
#include "proto/health.pb-c.h"

/* Each watcher costs only a held call. */
#define WATCHERS_MAX 64
#define USER_WATCHERS_MAX 16

#define SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define SERVICE_UNKNOWN GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN

typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus serving_status;

struct watcher {
	struct service *service;
	struct grpc_call *call;
	uid_t user;
	struct watcher *next;
};

static struct grpc_body *body_of(serving_status status)
{
	Grpc__Health__V1__HealthCheckResponse response =
		GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
	struct grpc_body *body = NULL;

	response.status = status;
	return reply_message(&response.base, &body) < 0 ? NULL : body;
}

/* The state of the service that a request names; SERVICE_UNKNOWN: there is none of this name. */
static serving_status status_of(const struct service *s, const char *name)
{
	if (*name && !grpc_server_has_service(s->server, name))
		return SERVICE_UNKNOWN;
	return s->stopping ? NOT_SERVING : SERVING;
}

/* The service in question; false: the call was answered. */
static bool read_request(struct grpc_call *call, const struct service *s, const uint8_t *message,
			 size_t size, serving_status *ret)
{
	Grpc__Health__V1__HealthCheckRequest *m =
		grpc__health__v1__health_check_request__unpack(NULL, size, message);

	if (!m) {
		grpc_call_fail(call, GRPC_INVALID_ARGUMENT, "not a HealthCheckRequest");
		return false;
	}
	*ret = status_of(s, m->service);
	grpc__health__v1__health_check_request__free_unpacked(m, NULL);
	return true;
}

void health_check(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	struct grpc_body *body;
	serving_status status;

	if (!read_request(call, data, message, size, &status))
		return;
	if (status == SERVICE_UNKNOWN) {
		grpc_call_fail(call, GRPC_NOT_FOUND, "no such service");
		return;
	}
	body = body_of(status);
	if (body)
		grpc_call_reply(call, body);
	else
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
}

static void forget(void *data)
{
	struct watcher *w = data;

	for (struct watcher **p = &w->service->watchers; *p; p = &(*p)->next)
		if (*p == w) {
			*p = w->next;
			break;
		}
	w->service->n_watchers--;
	free(w);
}

static bool has_room(const struct service *s, uid_t user)
{
	const struct share share = { .all = WATCHERS_MAX, .per_user = USER_WATCHERS_MAX };
	unsigned own = 0;

	for (const struct watcher *w = s->watchers; w; w = w->next)
		own += w->user == user;
	return share_grant(&share, user, s->n_watchers, own, 1) == SHARE_GRANTED;
}

void health_watch(struct grpc_call *call, const uint8_t *message, size_t size, void *data)
{
	const struct peer *peer = grpc_call_peer(call);
	struct service *s = data;
	struct grpc_body *body;
	serving_status status;
	struct watcher *w;

	if (!read_request(call, s, message, size, &status))
		return;
	if (s->stopping || !peer) {
		grpc_call_fail(call, GRPC_UNAVAILABLE, "the daemon is shutting down");
		return;
	}
	if (!has_room(s, peer->uid)) {
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED,
			       "too many clients are already watching: use Check");
		return;
	}
	body = body_of(status);
	w = calloc(1, sizeof(*w));
	if (!body || !w || grpc_call_send(call, body) < 0) {
		free(w);
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	*w = (struct watcher){ .service = s, .call = call, .user = peer->uid, .next = s->watchers };
	s->watchers = w;
	s->n_watchers++;
	if (grpc_call_on_cancel(call, forget, w) < 0) {
		forget(w);
		grpc_call_finish(call, GRPC_CANCELLED, NULL);
	}
}

void health_stop(struct service *s)
{
	while (s->watchers) {
		struct grpc_call *call = s->watchers->call;
		struct grpc_body *body = body_of(NOT_SERVING);

		grpc_call_on_cancel(call, NULL, NULL);
		forget(s->watchers);
		if (body)
			grpc_call_send(call, body);
		grpc_call_fail(call, GRPC_UNAVAILABLE, "the daemon is shutting down");
	}
}
