/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rpc/metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>

#include "daemon/rpc/host_header.h"
#include "daemon/rpc/jobs.h"
#include "daemon/rpc/status.h"
#include "daemon/rpc/triggered.h"
#include "lib/base/loop.h"
#include "lib/base/macro.h"

#define CONNECTIONS_MAX 16
#define TIMEOUT_S 10
#define MEMORY_BYTES 16384
/* This many buckets of a histogram are one for Prometheus: powers of two. */
#define BUCKET_STEP 4

struct metrics {
	struct service *service;
	struct MHD_Daemon *http;
	struct loop_source *source;
	struct loop_timer *timer;
};

static void print_head(FILE *f, const char *name, const char *type, const char *help)
{
	fprintf(f, "# HELP tfprofd_%s %s\n# TYPE tfprofd_%s %s\n", name, help, name, type);
}

static void print_number(FILE *f, const char *name, const char *type, const char *help,
			 double value)
{
	print_head(f, name, type, help);
	fprintf(f, "tfprofd_%s %.15g\n", name, value);
}

/* A label's value; it is escaped because names come from other users' processes. */
static void print_label(FILE *f, const char *text)
{
	for (; *text; text++)
		if (*text == '"' || *text == '\\')
			fprintf(f, "\\%c", *text);
		else
			fputc(*text >= ' ' && *text < 0x7f ? *text : '_', f);
}

static void print_captures(FILE *f, const struct service *s)
{
	const struct service_totals *t = &s->totals;
	double overhead = 0;
	uint64_t records = t->records, dropped = t->dropped;
	unsigned running = 0;

	for (const struct job *j = s->jobs; j; j = j->next) {
		struct capture_progress p;

		if (!j->capture)
			continue;
		capture_get_progress(j->capture, &p);
		running++;
		records += p.records;
		dropped += p.dropped;
		overhead = MAX(overhead, p.overhead);
	}
	print_number(f, "captures_running", "gauge", "Captures in progress.", running);
	print_head(f, "captures_total", "counter", "Captures that have ended.");
	fprintf(f, "tfprofd_captures_total{result=\"ok\"} %" PRIu64 "\n", t->succeeded);
	fprintf(f, "tfprofd_captures_total{result=\"failed\"} %" PRIu64 "\n", t->failed);
	fprintf(f, "tfprofd_captures_total{result=\"cancelled\"} %" PRIu64 "\n", t->cancelled);
	print_number(f, "capture_events_total", "counter",
		     "Records that captures have read from the kernel.", (double)records);
	print_number(f, "capture_events_lost_total", "counter",
		     "Records that captures have lost, for any cause.", (double)dropped);
	print_number(
		f, "capture_overhead_ratio", "gauge",
		"Probe overhead of the most expensive running capture as a share of its processes' CPU time, by forecast.",
		overhead / 100);
}

static void print_recorder(FILE *f, const struct service *s)
{
	bool runs = s->recorder && !s->recorder_ends;
	struct recorder_status r = {};

	if (runs)
		recorder_get_status(s->recorder, &r);
	print_number(f, "recorder_running", "gauge", "1: the flight recorder runs.", runs);
	if (!runs)
		return;
	print_number(f, "recorder_processes", "gauge", "Processes that it records.", r.n_targets);
	print_number(f, "recorder_bytes", "gauge", "Memory used by the records that it keeps.",
		     (double)r.bytes);
	print_number(f, "recorder_kept_seconds", "gauge", "Length of the time span that is kept.",
		     r.oldest_ns ? (double)MIN(loop_now() - r.oldest_ns,
					       recorder_get_options(s->recorder)->last_ns) /
					   1e9
				 : 0);
	print_number(f, "recorder_events_total", "counter",
		     "Records that it has read from the kernel.", (double)r.records);
	print_number(f, "recorder_events_lost_total", "counter",
		     "Records that it has lost, for any cause.", (double)r.dropped);
	print_number(
		f, "recorder_overhead_ratio", "gauge",
		"Probe overhead of the recorder as a share of its processes' CPU time, by forecast.",
		r.overhead / 100);
	print_number(
		f, "recorder_given_up_kinds", "gauge",
		"Kinds of probes that are not attached, because of its budget or because the kernel refuses them.",
		r.n_shed);
}

static void print_suppressed(FILE *f, const char *name, const char *reason, uint64_t n)
{
	fprintf(f, "tfprofd_snapshots_suppressed_total{trigger=\"%s\",reason=\"%s\"} %" PRIu64 "\n",
		name, reason, n);
}

/* Names of triggers need no escapes. */
static void print_triggers(FILE *f, const struct service *s)
{
	struct triggered_counts c;

	if (!triggered_count(s->triggered, 0, &c))
		return;
	print_head(f, "snapshots_total", "counter", "Snapshots that triggers have kept.");
	for (unsigned i = 0; triggered_count(s->triggered, i, &c); i++)
		fprintf(f, "tfprofd_snapshots_total{trigger=\"%s\"} %" PRIu64 "\n", c.name, c.kept);
	print_head(
		f, "snapshots_suppressed_total", "counter",
		"Snapshots that triggers have not kept: too soon after the last one, or failed.");
	for (unsigned i = 0; triggered_count(s->triggered, i, &c); i++) {
		print_suppressed(f, c.name, "interval", c.too_soon);
		print_suppressed(f, c.name, "failed", c.failed);
	}
}

static void print_histogram(FILE *f, const struct target *target, const struct histogram *h)
{
	uint64_t seen = 0;

	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		bool is_last = i == HISTOGRAM_BUCKETS - 1;

		seen += h->buckets[i];
		if (i % BUCKET_STEP && !is_last)
			continue;
		fprintf(f, "tfprofd_request_duration_seconds_bucket{pid=\"%d\",process=\"",
			target->pid);
		print_label(f, target->name);
		if (is_last)
			fprintf(f, "\",le=\"+Inf\"} %" PRIu64 "\n", seen);
		else
			fprintf(f, "\",le=\"%.9g\"} %" PRIu64 "\n", (double)histogram_end(i) / 1e9,
				seen);
	}
	fprintf(f, "tfprofd_request_duration_seconds_sum{pid=\"%d\",process=\"", target->pid);
	print_label(f, target->name);
	fprintf(f, "\"} %.9g\n", (double)h->sum_ns / 1e9);
	fprintf(f, "tfprofd_request_duration_seconds_count{pid=\"%d\",process=\"", target->pid);
	print_label(f, target->name);
	fprintf(f, "\"} %" PRIu64 "\n", seen);
}

static void print_targets(FILE *f, struct service *s)
{
	unsigned n = 0;

	print_head(
		f, "request_duration_seconds", "histogram",
		"Latency of finished requests per process, since the recorder, or otherwise a running capture, began.");
	for (struct target *t = targets_next(s->targets, NULL); t;
	     t = targets_next(s->targets, t), n++) {
		struct histogram latencies = {};
		double seconds;

		if (status_of_requests(s, t->pid, &latencies, &seconds))
			print_histogram(f, t, &latencies);
	}
	print_number(f, "targets", "gauge", "Processes with a known runtime.", n);
}

static char *print_all(struct service *s)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	print_head(f, "build_info", "gauge", "1, with the version of the daemon.");
	fprintf(f, "tfprofd_build_info{version=\"%s\"} 1\n", TFPROFD_VERSION);
	print_number(f, "uptime_seconds", "gauge", "Time since the daemon began.",
		     (double)(loop_now() - s->started_ns) / 1e9);
	print_captures(f, s);
	print_recorder(f, s);
	print_triggers(f, s);
	print_targets(f, s);
	return fclose(f) ? NULL : text;
}

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, char *text,
			      enum MHD_ResponseMemoryMode mode, const char *type)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(strlen(text), text, mode);
	enum MHD_Result result;

	if (!response) {
		if (mode == MHD_RESPMEM_MUST_FREE)
			free(text);
		return MHD_NO;
	}
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

/* No browser connects to a Unix socket, and every browser sends the header. */
static bool is_meant_for_us(const struct config *config, struct MHD_Connection *connection)
{
	const char *host =
		MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);

	return *config->metrics.path || !host ||
	       host_header_is_own(host, config->metrics.address.host, config->metrics_hosts);
}

static enum MHD_Result on_request(void *data, struct MHD_Connection *connection, const char *url,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_size, void **state)
{
	static const char plain[] = "text/plain; charset=utf-8";
	struct metrics *m = data;
	char *text;

	if (!is_meant_for_us(m->service->options.config, connection))
		return answer(
			connection, MHD_HTTP_MISDIRECTED_REQUEST,
			"The Host header of this request does not name this host: use localhost or a loopback address, "
			"or add the name to metrics-hosts in the configuration of tfprofd.\n",
			MHD_RESPMEM_PERSISTENT, plain);
	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET only\n",
			      MHD_RESPMEM_PERSISTENT, plain);
	if (!strcmp(url, "/healthz"))
		return m->service->stopping ? answer(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
						     "the daemon is shutting down\n",
						     MHD_RESPMEM_PERSISTENT, plain)
					    : answer(connection, MHD_HTTP_OK, "ok\n",
						     MHD_RESPMEM_PERSISTENT, plain);
	if (strcmp(url, "/metrics"))
		return answer(connection, MHD_HTTP_NOT_FOUND, "/metrics and /healthz\n",
			      MHD_RESPMEM_PERSISTENT, plain);
	text = print_all(m->service);
	if (!text)
		return MHD_NO;
	return answer(connection, MHD_HTTP_OK, text, MHD_RESPMEM_MUST_FREE,
		      "text/plain; version=0.0.4; charset=utf-8");
}

/* libmicrohttpd sets the time of its next run. */
static void run(void *data)
{
	struct metrics *m = data;
	MHD_UNSIGNED_LONG_LONG ms;

	MHD_run(m->http);
	loop_timer_set(m->timer, MHD_get_timeout(m->http, &ms) == MHD_YES
					 ? loop_now() + ms * 1000000
					 : LOOP_NEVER);
}

static void on_event(int fd, uint32_t events, void *data)
{
	run(data);
}

int metrics_new(struct service *s, int fd, struct metrics **ret)
{
	struct metrics *m = calloc(1, sizeof(*m));
	const union MHD_DaemonInfo *info = NULL;
	int r;

	if (!m)
		return -ENOMEM;
	m->service = s;
	r = loop_timer_new(s->options.loop, run, m, &m->timer);
	if (r == 0) {
		m->http = MHD_start_daemon(
			MHD_USE_EPOLL, 0, NULL, NULL, on_request, m, MHD_OPTION_LISTEN_SOCKET, fd,
			MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
			MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S,
			MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_BYTES, MHD_OPTION_END);
		info = m->http ? MHD_get_daemon_info(m->http, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
		r = info ? loop_source_new(s->options.loop, info->epoll_fd, EPOLLIN, on_event, m,
					   &m->source)
			 : -ENOMEM;
	}
	if (r < 0) {
		metrics_free(m);
		return r;
	}
	*ret = m;
	return 0;
}

struct metrics *metrics_free(struct metrics *m)
{
	if (!m)
		return NULL;
	loop_source_free(m->source);
	if (m->http)
		MHD_stop_daemon(m->http);
	loop_timer_free(m->timer);
	free(m);
	return NULL;
}
