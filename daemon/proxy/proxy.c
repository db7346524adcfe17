/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/proxy/proxy.h"

#include <errno.h>
#include <pthread.h>

#include "daemon/broker/channel.h"
#include "lib/base/macro.h"

struct proxy {
	struct line {
		int socket;
		pthread_mutex_t lock;
	} lines[BROKER_LINES];
	unsigned generation; /* atomic */
};

int proxy_new(const int sockets[BROKER_LINES], struct proxy **ret)
{
	struct proxy *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	for (unsigned i = 0; i < BROKER_LINES; i++) {
		p->lines[i].socket = sockets[i];
		pthread_mutex_init(&p->lines[i].lock, NULL);
	}
	*ret = p;
	return 0;
}

void proxy_renew(struct proxy *p, const int sockets[BROKER_LINES])
{
	__atomic_add_fetch(&p->generation, 1, __ATOMIC_SEQ_CST);
	for (unsigned i = 0; i < BROKER_LINES; i++) {
		/* No request begins with one broker and ends with another. */
		pthread_mutex_lock(&p->lines[i].lock);
		close(p->lines[i].socket);
		p->lines[i].socket = sockets[i];
		pthread_mutex_unlock(&p->lines[i].lock);
	}
}

unsigned proxy_generation(const struct proxy *p)
{
	return __atomic_load_n(&p->generation, __ATOMIC_SEQ_CST);
}

struct proxy *proxy_free(struct proxy *p)
{
	if (!p)
		return NULL;
	for (unsigned i = 0; i < BROKER_LINES; i++) {
		close(p->lines[i].socket);
		pthread_mutex_destroy(&p->lines[i].lock);
	}
	free(p);
	return NULL;
}

int proxy_call_with(struct proxy *p, struct broker_message *m, int fd, int *ret_fds,
		    unsigned *ret_n_fds)
{
	struct line *line = &p->lines[broker_line_of(m->type)];
	int fds[BROKER_MAX_FDS], r;
	uint32_t type = m->type;
	unsigned n = 0;

	m->text[0] = 0;
	pthread_mutex_lock(&line->lock);
	r = channel_send(line->socket, m, sizeof(*m), &fd, fd >= 0);
	if (r >= 0)
		r = channel_receive(line->socket, m, sizeof(*m), fds, BROKER_MAX_FDS, &n);
	pthread_mutex_unlock(&line->lock);
	if (r >= 0 && m->type != type)
		r = -EBADMSG;
	m->text[sizeof(m->text) - 1] = 0;
	if (r >= 0)
		r = m->result;
	for (unsigned i = 0; i < n; i++)
		if (r >= 0 && ret_fds)
			ret_fds[i] = fds[i];
		else
			close(fds[i]);
	if (ret_n_fds)
		*ret_n_fds = r >= 0 ? n : 0;
	return r;
}

int proxy_call(struct proxy *p, struct broker_message *m, int *ret_fds, unsigned *ret_n_fds)
{
	return proxy_call_with(p, m, -1, ret_fds, ret_n_fds);
}

int proxy_return(struct proxy *p, uint32_t client, int connection)
{
	struct broker_message m = { .type = BROKER_RETURN, .id = client };

	return proxy_call_with(p, &m, connection, NULL, NULL);
}

int proxy_call_id(struct proxy *p, enum broker_request type, uint32_t id)
{
	struct broker_message m = { .type = type, .id = id };

	return proxy_call(p, &m, NULL, NULL);
}
