/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/front.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/broker/channel.h"
#include "daemon/capture/budget/forecast.h"
#include "daemon/front/pem.h"
#include "daemon/rpc/service.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"

_Static_assert(BROKER_RELOAD_KEY == BROKER_RELOAD_CERTIFICATE + PEM_KEY &&
		       BROKER_RELOAD_CLIENT_CA == BROKER_RELOAD_CERTIFICATE + PEM_CLIENT_CA &&
		       BROKER_RELOAD_REVOKED == BROKER_RELOAD_CERTIFICATE + PEM_REVOKED,
	       "the files are in the order in which they are read");

struct front {
	struct loop *loop;
	struct service *service;
	const struct front_options *options;
	struct config *config;
	struct grpc_tls *tls; /* NULL: none */
	struct loop_timer *watchdog;
	struct loop_source *events;
};

/* The supervisor starts another broker within this time, or ends. */
#define BROKER_MS 10000

static void notify(struct front *f, enum broker_state state)
{
	struct broker_message m = { .type = BROKER_NOTIFY, .index = state };

	proxy_call(f->service->options.proxy, &m, NULL, NULL);
}

static void warn_restart(const char *name, void *data)
{
	log_warning("'%s' has changed: restart the daemon to apply it", name);
}

/* A configuration that cannot be used changes nothing. */
static int read_again(struct front *f, int files[static BROKER_RELOAD_COUNT], struct config **ret,
		      struct grpc_tls **ret_tls, char *text, size_t size)
{
	const bool wanted[PEM_COUNT] = { *f->config->tls_certificate, *f->config->tls_key,
					 *f->config->tls_client_ca, *f->config->tls_revoked };
	int r = 0;

	*ret_tls = NULL;
	if (f->tls)
		r = pem_read(files + BROKER_RELOAD_CERTIFICATE, wanted, ret_tls, text, size);
	if (r < 0)
		return r;
	if (*f->config->file && files[BROKER_RELOAD_CONFIG] < 0) {
		snprintf(text, size, "%.500s cannot be read", f->config->file);
		r = -ENOENT;
	} else {
		r = config_renew(f->config, f->options->argc, f->options->argv,
				 TAKE_FD(files[BROKER_RELOAD_CONFIG]), warn_restart, NULL, ret,
				 text, size);
	}
	if (r < 0)
		grpc_tls_free(*ret_tls);
	return r;
}

static void reload(struct front *f, const struct broker_event *event, int fds[], unsigned n_fds)
{
	int files[BROKER_RELOAD_COUNT];
	struct config *config;
	struct grpc_tls *tls;
	char reason[600] = "";
	unsigned n = 0;

	for (unsigned i = 0; i < BROKER_RELOAD_COUNT; i++)
		files[i] = event->files & 1u << i && n < n_fds ? fds[n++] : -1;
	if (read_again(f, files, &config, &tls, reason, sizeof(reason)) < 0) {
		log_error("%s; the configuration and the certificate remain unchanged", reason);
	} else {
		service_set_config(f->service, config);
		log_set_level(config->verbose ? LOG_DEBUG : LOG_INFO);
		config_free(f->config);
		f->config = config;
		if (tls) {
			service_set_tls(f->service, tls);
			grpc_tls_free(f->tls);
			f->tls = tls;
		}
		log_info("the configuration was reloaded");
	}
	for (unsigned i = 0; i < BROKER_RELOAD_COUNT; i++)
		safe_close(files[i]);
}

static int listen_to_broker(struct front *f);

/* The next broker's lines take the place of those that lead to none. */
static int take_lines(struct front *f)
{
	struct pollfd p = { .fd = f->options->supervisor, .events = POLLIN };
	int fds[3], r;
	unsigned n;
	char byte;

	while ((r = poll(&p, 1, BROKER_MS)) < 0 && errno == EINTR)
		;
	if (r <= 0)
		return -ETIMEDOUT;
	r = channel_receive(p.fd, &byte, sizeof(byte), fds, ARRAY_SIZE(fds), &n);
	if (r < 0)
		return r;
	if (n < ARRAY_SIZE(fds))
		return -EBADMSG;
	f->events = loop_source_free(f->events);
	proxy_renew(f->service->options.proxy, fds);
	/* The same number: other parts of the front send notes there. */
	r = dup2(fds[2], f->options->lines.events) < 0 ? -errno : 0;
	close(fds[2]);
	return r < 0 ? r : listen_to_broker(f);
}

/*
 * Nothing can be served without a broker: the loop stands still until there is the next one, and
 * clients wait. What was attached has gone with the broker, and captures notice it.
 */
static void on_broker_ended(struct front *f)
{
	int r;

	log_warning("the broker has ended; waiting for another one");
	r = take_lines(f);
	if (r < 0) {
		log_error_errno(r, "there is no broker any more: %m");
		loop_exit(f->loop, EXIT_FAILURE);
		return;
	}
	service_renew(f->service);
	log_info("another broker serves; captures that were running have failed");
}

static void on_event(int fd, uint32_t events, void *data)
{
	struct broker_event event;
	struct front *f = data;
	int fds[BROKER_RELOAD_COUNT];
	unsigned n_fds;

	while (channel_receive(fd, &event, sizeof(event), fds, BROKER_RELOAD_COUNT, &n_fds) == 0)
		switch (event.type) {
		case BROKER_EVENT_LOOK:
			targets_examine_soon(f->service->targets, (pid_t)event.pid);
			break;
		case BROKER_EVENT_EXECUTED:
			targets_executed(f->service->targets, (pid_t)event.pid);
			break;
		case BROKER_EVENT_RESCAN:
			targets_examine_soon(f->service->targets, 0);
			break;
		case BROKER_EVENT_STOP:
			notify(f, BROKER_STATE_STOPPING);
			service_stop(f->service);
			break;
		case BROKER_EVENT_RELOAD:
			reload(f, &event, fds, n_fds);
			break;
		}
	if (events & EPOLLHUP)
		on_broker_ended(f);
}

static int listen_to_broker(struct front *f)
{
	int fd = f->options->lines.events, flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	return loop_source_new(f->loop, fd, EPOLLIN, on_event, f, &f->events);
}

/* Both are alive: this loop, and the broker, which reports it. */
static void on_watchdog(void *data)
{
	struct front *f = data;

	notify(f, BROKER_STATE_ALIVE);
	loop_timer_set(f->watchdog, loop_now() + f->options->watchdog_ns);
}

static int serve(struct front *f, const struct front_options *options)
{
	struct forecast forecast;
	int r;

	for (unsigned i = 0; i < options->n_listeners; i++) {
		r = options->listeners[i].kind == LISTENER_TARGET ? 0
								  : service_listen(f->service, i);
		if (r < 0)
			return log_error_errno(r, "cannot serve a listener: %m");
	}
	r = listen_to_broker(f);
	if (r < 0)
		return log_error_errno(r, "cannot listen to the broker: %m");
	/* Measured once per boot, before the first capture has to wait for it. */
	forecast_get(f->service->options.proxy, f->service->options.cache, &forecast);
	targets_scan(f->service->targets);
	service_close_ports(f->service);
	if (options->ready >= 0 && write(options->ready, "", 1) < 0)
		log_debug("cannot report that it is ready: %m");
	notify(f, BROKER_STATE_READY);
	if (options->watchdog_ns) {
		r = loop_timer_new(f->loop, on_watchdog, f, &f->watchdog);
		if (r < 0)
			return log_error_errno(r, "cannot start: %m");
		on_watchdog(f);
	}
	r = loop_run(f->loop);
	loop_timer_free(f->watchdog);
	loop_source_free(f->events);
	return r;
}

int front_run(const struct front_options *options)
{
	struct sandbox_front sandbox = { .user = options->user, .cache = options->cache };
	struct service_options service = { .listeners = options->listeners,
					   .n_listeners = options->n_listeners,
					   .config = options->config,
					   .tls = options->tls,
					   .metrics = options->metrics,
					   .ports = options->ports,
					   .notes = options->lines.events };
	char hostname[256] = "localhost";
	struct proxy *proxy = NULL;
	struct front f = { .options = options, .config = options->config, .tls = options->tls };
	int r;

	gethostname(hostname, sizeof(hostname) - 1);
	r = sandbox_front(&sandbox);
	if (r < 0)
		return r;
	service.cache = sandbox.cache;
	service.hostname = hostname;
	r = loop_new(&f.loop);
	if (r >= 0)
		r = proxy_new((int[]){ options->lines.requests, options->lines.captures }, &proxy);
	service.loop = f.loop;
	service.proxy = proxy;
	if (r >= 0)
		r = service_new(&service, &f.service);
	if (r < 0)
		log_error_errno(r, "cannot start: %m");
	else
		r = serve(&f, options);
	/* Remaining threads end with the process: they are not waited for. */
	if (r == 0) {
		service_free(f.service);
		grpc_tls_free(f.tls);
		config_free(f.config);
		proxy_free(proxy);
		loop_free(f.loop);
	}
	return r;
}
