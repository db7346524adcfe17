/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/audit.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "daemon/broker/audit_file.h"
#include "daemon/plan/detail.h"
#include "include/record_types.h"
#include "lib/base/escape.h"
#include "lib/base/key_value.h"
#include "lib/base/log.h"
#include "lib/base/loop.h"
#include "lib/base/macro.h"
#include "lib/base/rate_limit.h"

#define JOURNAL_SOCKET "/run/systemd/journal/socket"
#define EXE_MAX 256
#define NOTES_AT_ONCE 32

/* Kept until another client has its slot: what the front reports about a client can arrive after
 * the client has gone. */
struct client {
	uint32_t id;
	uid_t uid;
	pid_t pid; /* 0: unknown */
	char exe[EXE_MAX];
	char subject[AUDIT_SUBJECT_MAX];
};

struct target {
	pid_t pid;
	uid_t uid; /* AUDIT_NO_USER: the process has ended */
	char exe[EXE_MAX], cgroup[EXE_MAX];
};

struct running {
	bool used, attached;
	struct client client;
	struct target first; /* of its targets */
	pid_t pids[RECORD_MAX_TARGETS];
	unsigned n_pids;
	uint64_t begun_ns;
	unsigned shed; /* kinds of probes that it has a line about; a bit each */
	struct capture_counts counts;
};

struct audit {
	pthread_mutex_t lock; /* of all that follows */
	struct audit_file file;
	unsigned n_missing; /* lines since the last one that could be written to the file */
	int error;          /* why, of the first of them */
	int journal;        /* -1: there is none */
	struct rate_limit limit;
	struct client clients[BROKER_MAX_CLIENTS];
	struct running captures[BROKER_MAX_CAPTURES];
};

/* A line as it is built: for the file, and in the journal's own form. */
struct line {
	struct timespec time;
	char text[2048], journal[3072];
	size_t length, journal_length;
};

static const char *const verdicts[AUDIT_VERDICTS] = {
	[AUDIT_ALLOW] = "allow", [AUDIT_DENY] = "deny", [AUDIT_START] = "start",
	[AUDIT_STOP] = "stop",   [AUDIT_SHED] = "shed", [AUDIT_LOST] = "lost",
	[AUDIT_FAIL] = "fail",
};
static const char *const actions[AUDIT_ACTIONS] = {
	[AUDIT_CONNECT] = "connect",   [AUDIT_CAPTURE] = "capture",
	[AUDIT_PLAN] = "plan",         [AUDIT_LIST] = "targets",
	[AUDIT_MONITOR] = "monitor",   [AUDIT_STATUS] = "status",
	[AUDIT_END] = "stop",          [AUDIT_RECORDER] = "recorder",
	[AUDIT_SNAPSHOT] = "snapshot", [AUDIT_LIFECYCLE] = "lifecycle",
	[AUDIT_DOCTOR] = "doctor",     [AUDIT_LOG] = "log",
};

static void add(struct line *l, const char *key, const char *value)
{
	size_t begin = l->journal_length, room = sizeof(l->journal) - begin, n = 0;

	key_value_put(l->text, sizeof(l->text), &l->length, key, value);
	n = (size_t)snprintf(l->journal + begin, room, "TFPROFD_%s=", key);
	if (n + 1 >= room)
		return;
	for (size_t i = begin; i < begin + n; i++)
		l->journal[i] = (char)toupper(l->journal[i]);
	n += escape_text(value, l->journal + begin + n, room - n - 1);
	l->journal[begin + n++] = '\n';
	l->journal_length += n;
}

static void add_number(struct line *l, const char *key, uint64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, number);
	add(l, key, text);
}

static void read_exe(pid_t pid, char ret[static EXE_MAX])
{
	char path[32];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	n = readlink(path, ret, EXE_MAX - 1);
	ret[MAX(n, 0)] = 0;
}

/* The path in the hierarchy of version 2; "" if there is none. */
static void read_cgroup(pid_t pid, char ret[static EXE_MAX])
{
	_cleanup_close_ int fd = -1;
	char path[32], text[1024];
	const char *line;
	ssize_t n;

	*ret = 0;
	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
	text[MAX(n, 0)] = 0;
	line = !strncmp(text, "0::", 3) ? text + 3 : strstr(text, "\n0::");
	if (line)
		snprintf(ret, EXE_MAX, "%s", line + (*line == '\n' ? 4 : 0));
	ret[strcspn(ret, "\n")] = 0;
}

static void begin_line_at(struct line *l, const struct timespec *time, enum audit_verdict verdict,
			  enum audit_action action)
{
	struct tm utc;
	char text[40];
	size_t n;

	l->time = *time;
	l->length = l->journal_length = 0;
	*l->text = 0;
	gmtime_r(&time->tv_sec, &utc);
	n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(text + n, sizeof(text) - n, ".%06ldZ", time->tv_nsec / 1000);
	add(l, "time", text);
	add(l, "verdict", verdicts[verdict]);
	add(l, "action", actions[action]);
}

static void begin_line(struct line *l, enum audit_verdict verdict, enum audit_action action)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	begin_line_at(l, &now, verdict, action);
}

static void add_client(struct line *l, const struct client *c)
{
	if (c->uid != AUDIT_NO_USER)
		add_number(l, "client_uid", c->uid);
	if (c->pid)
		add_number(l, "client_pid", (uint64_t)c->pid);
	if (*c->exe)
		add(l, "client_exe", c->exe);
	if (*c->subject)
		add(l, "certificate", c->subject);
}

static void read_target(pid_t pid, struct target *ret)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	*ret = (struct target){ .pid = pid,
				.uid = stat(path, &st) == 0 ? st.st_uid : AUDIT_NO_USER };
	read_exe(pid, ret->exe);
	read_cgroup(pid, ret->cgroup);
}

static void add_target(struct line *l, const struct target *t)
{
	if (!t->pid)
		return;
	add_number(l, "target_pid", (uint64_t)t->pid);
	if (t->uid != AUDIT_NO_USER)
		add_number(l, "target_uid", t->uid);
	if (*t->exe)
		add(l, "target_exe", t->exe);
	if (*t->cgroup)
		add(l, "target_cgroup", t->cgroup);
}

/* The processes of a capture, if there are several. */
static void add_pids(struct line *l, const struct running *c)
{
	char text[RECORD_MAX_TARGETS * 12 + 1] = "";
	size_t n = 0;

	for (unsigned i = 0; i < c->n_pids; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%d", i ? " " : "", c->pids[i]);
	if (c->n_pids > 1)
		add(l, "target_pids", text);
}

static void note_missing(struct audit *a, int error)
{
	if (!a->n_missing)
		a->error = error;
	a->n_missing++;
	if (rate_limit_admit(&a->limit, UINT32_MAX, 0, loop_now()))
		log_warning_errno(
			error,
			"cannot write the audit log %s: %m; its lines are only in the journal, or in this log",
			AUDIT_FILE);
}

/* In the file the line follows one with the number of those that are missing. */
static void write_line(struct audit *a, struct line *l)
{
	struct line gap;
	char text[128];
	int r = 0;

	if (a->file.directory < 0)
		return;
	if (a->n_missing) {
		begin_line_at(&gap, &l->time, AUDIT_LOST, AUDIT_LOG);
		snprintf(text, sizeof(text), "%u line%s could not be written here: %s",
			 a->n_missing, a->n_missing == 1 ? "" : "s", strerror(-a->error));
		add(&gap, "reason", text);
		gap.text[gap.length] = '\n';
		r = audit_file_write(&a->file, gap.text, gap.length + 1);
	}
	if (r >= 0) {
		a->n_missing = 0;
		l->text[l->length] = '\n';
		r = audit_file_write(&a->file, l->text, l->length + 1);
		l->text[l->length] = 0;
	}
	if (r < 0)
		note_missing(a, r);
}

static void end_line(struct audit *a, struct line *l, enum audit_verdict verdict)
{
	/* The journal and the log have a time of their own. */
	const char *text = strchr(l->text, ' ') ?: "";
	char head[80 + sizeof(l->text)];
	struct iovec pieces[2];
	struct msghdr m = { .msg_iov = pieces, .msg_iovlen = 2 };
	int n;

	write_line(a, l);
	n = snprintf(head, sizeof(head),
		     "SYSLOG_IDENTIFIER=tfprofd\nPRIORITY=%d\nMESSAGE=audit:%s\n",
		     verdict == AUDIT_DENY ? LOG_NOTICE : LOG_INFO, text);
	pieces[0] = (struct iovec){ head, (size_t)n };
	pieces[1] = (struct iovec){ l->journal, l->journal_length };
	if (a->journal < 0 || sendmsg(a->journal, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		log_message(verdict == AUDIT_DENY ? LOG_NOTICE : LOG_INFO, "audit:%s", text);
}

static int open_journal(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = JOURNAL_SOCKET };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		fd = safe_close(fd);
	return fd;
}

int audit_new(int directory, struct audit **ret)
{
	struct audit *a = calloc(1, sizeof(*a));
	int r;

	if (!a)
		return -ENOMEM;
	pthread_mutex_init(&a->lock, NULL);
	a->file = (struct audit_file){ .directory = directory, .fd = -1 };
	a->journal = open_journal();
	r = directory < 0 ? 0 : audit_file_open(&a->file);
	if (r < 0)
		log_warning_errno(r, "cannot write the audit log %s: %m", AUDIT_FILE);
	*ret = a;
	return 0;
}

static const struct client *client_of(const struct audit *a, uint32_t id)
{
	static const struct client daemon = { .id = BROKER_DAEMON },
				   unknown = { .uid = AUDIT_NO_USER };
	const struct client *c = &a->clients[id % BROKER_MAX_CLIENTS];

	if (id == BROKER_DAEMON)
		return &daemon;
	return c->id == id ? c : &unknown;
}

void audit_client(struct audit *a, uint32_t id, uid_t uid, int connection)
{
	struct client c = { .id = id, .uid = uid };
	struct ucred peer;
	socklen_t size = sizeof(peer);

	/* TCP has none. */
	if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0)
		c.pid = peer.pid;
	if (c.pid)
		read_exe(c.pid, c.exe);
	pthread_mutex_lock(&a->lock);
	a->clients[id % BROKER_MAX_CLIENTS] = c;
	pthread_mutex_unlock(&a->lock);
}

static void on_omitted(uint32_t kind, uint32_t user, uint32_t n, void *data)
{
	enum audit_verdict verdict = kind / AUDIT_ACTIONS;
	char text[32];
	struct line l;

	if (kind >= AUDIT_VERDICTS * AUDIT_ACTIONS)
		return;
	begin_line(&l, verdict, (enum audit_action)(kind % AUDIT_ACTIONS));
	if (user != RATE_LIMIT_OTHERS)
		add_number(&l, "client_uid", user);
	snprintf(text, sizeof(text), "%" PRIu32 " more %s", n,
		 verdict == AUDIT_DENY ? "refused" : "such");
	add(&l, "reason", text);
	end_line(data, &l, verdict);
}

void audit_tick(struct audit *a, uint64_t now_ns)
{
	pthread_mutex_lock(&a->lock);
	rate_limit_end(&a->limit, now_ns, false, on_omitted, a);
	pthread_mutex_unlock(&a->lock);
}

static bool admit(struct audit *a, enum audit_verdict verdict, enum audit_action action,
		  const struct client *c)
{
	return rate_limit_admit(&a->limit, (uint32_t)verdict * AUDIT_ACTIONS + action, c->uid,
				loop_now());
}

static void write_note(struct audit *a, const struct audit_note *note)
{
	struct client *own = &a->clients[note->client % BROKER_MAX_CLIENTS];
	const struct client *c = client_of(a, note->client);
	char reason[AUDIT_REASON_MAX];
	struct target target = {};
	struct line l;

	if (c == own)
		snprintf(own->subject, sizeof(own->subject), "%.*s", AUDIT_SUBJECT_MAX - 1,
			 note->subject);
	if (note->verdict >= AUDIT_VERDICTS || note->action >= AUDIT_LOG)
		return;
	snprintf(reason, sizeof(reason), "%.*s", AUDIT_REASON_MAX - 1, note->reason);
	if (!admit(a, note->verdict, note->action, c))
		return;
	begin_line(&l, note->verdict, note->action);
	add_client(&l, c);
	if (note->pid)
		read_target((pid_t)note->pid, &target);
	add_target(&l, &target);
	if (*reason)
		add(&l, "reason", reason);
	add(&l, "reported_by", "front");
	end_line(a, &l, note->verdict);
}

void audit_read_notes(struct audit *a, int socket)
{
	struct audit_note note;

	for (unsigned i = 0; i < NOTES_AT_ONCE; i++) {
		if (recv(socket, &note, sizeof(note), MSG_DONTWAIT) != sizeof(note))
			break;
		pthread_mutex_lock(&a->lock);
		write_note(a, &note);
		pthread_mutex_unlock(&a->lock);
	}
}

void audit_count(struct audit *a, uint32_t capture, const struct capture_counts *counts)
{
	pthread_mutex_lock(&a->lock);
	if (capture < BROKER_MAX_CAPTURES)
		a->captures[capture].counts = *counts;
	pthread_mutex_unlock(&a->lock);
}

/* A line about a capture. target: the one in question, NULL: all of them; numbers: what it has
 * delivered. */
static void write_capture(struct audit *a, uint32_t id, enum audit_verdict verdict,
			  const struct target *target, const char *reason, bool numbers)
{
	const struct running *c = &a->captures[id];
	const struct client *known = client_of(a, c->client.id);
	struct line l;

	begin_line(&l, verdict, AUDIT_CAPTURE);
	/* Its certificate may have been reported after the capture began. */
	add_client(&l, known->id == c->client.id ? known : &c->client);
	add_number(&l, "capture", id);
	add_target(&l, target ?: &c->first);
	if (!target)
		add_pids(&l, c);
	if (*reason)
		add(&l, "reason", reason);
	if (numbers) {
		add_number(&l, "duration_ms", (loop_now() - c->begun_ns) / 1000000);
		add_number(&l, "events", c->counts.records);
		add_number(&l, "bytes", c->counts.bytes);
		add_number(&l, "lost", c->counts.lost);
	}
	end_line(a, &l, verdict);
}

static void on_target(struct audit *a, uint32_t id, pid_t pid, const struct broker_message *answer)
{
	struct running *c = &a->captures[id];
	struct target target;

	if (answer->result != 0 &&
	    (answer->result != -EACCES || !admit(a, AUDIT_DENY, AUDIT_CAPTURE, &c->client)))
		return;
	read_target(pid, &target);
	if (answer->result == 0 && c->n_pids < RECORD_MAX_TARGETS)
		c->pids[c->n_pids++] = pid;
	if (answer->result == 0 && c->n_pids == 1)
		c->first = target;
	write_capture(a, id, answer->result == 0 ? AUDIT_ALLOW : AUDIT_DENY, &target, answer->text,
		      false);
}

void audit_lost_target(struct audit *a, uint32_t capture, pid_t pid, const char *reason)
{
	struct target target;

	pthread_mutex_lock(&a->lock);
	if (capture < BROKER_MAX_CAPTURES && a->captures[capture].used &&
	    admit(a, AUDIT_DENY, AUDIT_CAPTURE, &a->captures[capture].client)) {
		read_target(pid, &target);
		write_capture(a, capture, AUDIT_DENY, &target, reason, false);
	}
	pthread_mutex_unlock(&a->lock);
}

static void write_denial(struct audit *a, enum audit_action action, const struct client *c,
			 const char *reason)
{
	struct line l;

	if (!admit(a, AUDIT_DENY, action, c))
		return;
	begin_line(&l, AUDIT_DENY, action);
	add_client(&l, c);
	add(&l, "reason", reason);
	end_line(a, &l, AUDIT_DENY);
}

static void on_capture(struct audit *a, const struct audit_asked *asked,
		       const struct broker_message *answer)
{
	const struct client *c = client_of(a, asked->id);

	if (answer->result == 0 && answer->id < BROKER_MAX_CAPTURES)
		a->captures[answer->id] =
			(struct running){ .used = true, .client = *c, .begun_ns = loop_now() };
	else if (answer->result == -EBUSY || answer->result == -ECANCELED ||
		 answer->result == -EACCES)
		write_denial(a, AUDIT_CAPTURE, c,
			     *answer->text ? answer->text : "the client is not connected");
}

static void end_capture(struct audit *a, uint32_t id, const char *reason)
{
	struct running *c = &a->captures[id];

	if (c->counts.lost)
		write_capture(a, id, AUDIT_LOST, NULL, "the ring buffers were full", true);
	write_capture(a, id, AUDIT_STOP, NULL, reason, true);
	c->used = false;
}

/* Requests about a capture that runs. */
static void on_running(struct audit *a, const struct audit_asked *asked,
		       const struct broker_message *answer)
{
	struct running *c = asked->id < BROKER_MAX_CAPTURES ? &a->captures[asked->id] : NULL;

	if (!c || !c->used)
		return;
	if (asked->type == BROKER_TARGET) {
		on_target(a, asked->id, (pid_t)asked->pid, answer);
	} else if (asked->type == BROKER_ATTACH && answer->result == 0 && !c->attached) {
		c->attached = true;
		write_capture(a, asked->id, AUDIT_START, NULL, "", false);
	} else if (asked->type == BROKER_SHED && answer->result == 0 &&
		   !(c->shed & 1u << asked->kind)) {
		/* Again and again if operations are sampled. */
		c->shed |= 1u << asked->kind;
		write_capture(a, asked->id, AUDIT_SHED, NULL,
			      probe_kind_name((enum probe_kind)asked->kind), false);
	} else if (asked->type == BROKER_END && answer->result == 0) {
		end_capture(a, asked->id, "");
	}
}

void audit_snapshot(struct audit *a, pid_t pid, const char *file, uint64_t bytes)
{
	const struct client daemon = {};
	struct target target;
	struct line l;

	pthread_mutex_lock(&a->lock);
	begin_line(&l, AUDIT_ALLOW, AUDIT_SNAPSHOT);
	add_client(&l, &daemon);
	read_target(pid, &target);
	add_target(&l, &target);
	add(&l, "reason", file);
	add_number(&l, "bytes", bytes);
	end_line(a, &l, AUDIT_ALLOW);
	pthread_mutex_unlock(&a->lock);
}

void audit_answer(struct audit *a, const struct audit_asked *asked,
		  const struct broker_message *answer)
{
	const struct client refused = { .uid = answer->uid };

	pthread_mutex_lock(&a->lock);
	if (asked->type == BROKER_ACCEPT && answer->result == -EACCES)
		write_denial(a, AUDIT_CONNECT, &refused, answer->text);
	else if (asked->type == BROKER_CAPTURE)
		on_capture(a, asked, answer);
	else
		on_running(a, asked, answer);
	pthread_mutex_unlock(&a->lock);
}

struct audit *audit_free(struct audit *a)
{
	if (!a)
		return NULL;
	for (uint32_t i = 0; i < BROKER_MAX_CAPTURES; i++)
		if (a->captures[i].used)
			end_capture(a, i, "the daemon ends");
	rate_limit_end(&a->limit, 0, true, on_omitted, a);
	safe_close(a->file.fd);
	safe_close(a->journal);
	pthread_mutex_destroy(&a->lock);
	free(a);
	return NULL;
}
