/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/planner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "daemon/broker/channel.h"
#include "daemon/broker/limits.h"
#include "daemon/broker/plan_store.h"
#include "daemon/plan/proof.h"
#include "daemon/prover/prover.h"
#include "lib/base/escape.h"
#include "lib/base/log.h"
#include "lib/base/loop.h"
#include "lib/base/macro.h"
#include "lib/base/share.h"
#include "lib/elf/debug.h"

#define ENTRIES_MAX 256
/* Of one user's files that wait or are being read. */
#define USER_PENDING_MAX 32
/* A plan that nobody uses is dropped, and its file closed, after this time. */
#define KEEP_NS 60000000000ull

enum state { FREE, WAITING, RUNNING, DONE };

struct entry {
	struct planned planned; /* first: a reference to it is one to the entry */
	enum state state;
	unsigned references;
	int file;
	int questions; /* whose answers are wanted instead of a plan; -1: a plan is */
	struct stat st;
	uid_t user;
	const struct pack_set *packs;
	enum plan_wanted wanted;
	bool was_given;
	int line;       /* to the process that reads the file */
	int new_stored; /* where it writes what is stored */
	uint64_t used_ns, order;
};

struct planner {
	int prover;
	struct plan_store *store;
	struct entry entries[ENTRIES_MAX];
	uint64_t order;
};

int planner_new(int prover, int state, struct planner **ret)
{
	struct planner *p = calloc(1, sizeof(*p));

	if (!p || plan_store_new(state, &p->store) < 0) {
		free(p);
		return -ENOMEM;
	}
	p->prover = prover;
	*ret = p;
	return 0;
}

int planner_directory(const struct planner *p)
{
	return plan_store_directory(p->store);
}

static void drop(struct entry *e)
{
	safe_close(e->file);
	safe_close(e->questions);
	safe_close(e->line);
	safe_close(e->new_stored);
	safe_close(e->planned.proof);
	plan_unref((struct plan *)e->planned.plan);
	*e = (struct entry){};
}

struct planner *planner_free(struct planner *p)
{
	if (!p)
		return NULL;
	for (unsigned i = 0; i < ENTRIES_MAX; i++)
		if (p->entries[i].state != FREE)
			drop(&p->entries[i]);
	plan_store_free(p->store);
	safe_close(p->prover);
	free(p);
	return NULL;
}

void planned_unref(struct planned *planned)
{
	struct entry *e = (struct entry *)planned;

	if (e && e->references)
		e->references--;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static struct entry *find(struct planner *p, const struct stat *st, const struct pack_set *set,
			  enum plan_wanted wanted)
{
	for (unsigned i = 0; i < ENTRIES_MAX; i++) {
		struct entry *e = &p->entries[i];

		if (e->state != FREE && e->questions < 0 && e->packs == set &&
		    e->wanted == wanted && is_same_file(&e->st, st))
			return e;
	}
	return NULL;
}

/* A free entry, or the least recently used one that nobody refers to; NULL: there is none, or the
 * user has no more. */
static struct entry *find_room(struct planner *p, uid_t user)
{
	const struct share share = { .all = ENTRIES_MAX, .per_user = BROKER_MAX_USER_PLANS };
	struct entry *found = NULL;
	unsigned pending = 0, all = 0, own = 0;

	for (unsigned i = 0; i < ENTRIES_MAX; i++) {
		struct entry *e = &p->entries[i];

		pending += (e->state == WAITING || e->state == RUNNING) && e->user == user;
		if (e->state != FREE && (e->state != DONE || e->references)) {
			all++;
			own += e->user == user;
		} else if (!found || e->used_ns < found->used_ns) {
			found = e;
		}
	}
	if (!found || pending >= USER_PENDING_MAX ||
	    share_grant(&share, user, all, own, 1) != SHARE_GRANTED)
		return NULL;
	if (found->state != FREE)
		drop(found);
	return found;
}

static void fail(struct entry *e, int error, const char *reason)
{
	e->planned.error = error;
	snprintf(e->planned.reason, sizeof(e->planned.reason), "%s", reason);
	/* It may be a hostile file's. */
	escape_overwrite(e->planned.reason);
	e->planned.proof = safe_close(e->planned.proof);
	e->line = safe_close(e->line);
	e->new_stored = safe_close(e->new_stored);
	e->state = DONE;
}

static int begin(struct planner *p, struct entry *e)
{
	struct prover_request request = { .packs = e->packs ? e->packs->bits : 0,
					  .wanted = e->wanted };
	int lines[2], fds[PROVER_FDS_MAX], r;
	_cleanup_close_ int stored = -1;
	unsigned n = PROVER_FDS;

	e->planned.proof = memfd_create("tfprofd-plan", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (e->planned.proof < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, lines) < 0)
		return -errno;
	fcntl(lines[1], F_SETFL, 0);
	e->line = lines[0];
	fds[PROVER_FILE] = e->file;
	fds[PROVER_PROOF] = e->planned.proof;
	fds[PROVER_LINE] = lines[1];
	request.fds = (1u << PROVER_FDS) - 1;
	if (e->wanted != PLAN_BRIEF && e->packs)
		stored = plan_store_open(p->store, &e->st, e->packs);
	if (e->wanted == PLAN_WHOLE && e->packs)
		e->new_stored = plan_store_create(p->store);
	if (stored >= 0) {
		request.fds |= 1u << PROVER_STORED;
		fds[n++] = stored;
	}
	if (e->new_stored >= 0) {
		request.fds |= 1u << PROVER_NEW_STORED;
		fds[n++] = e->new_stored;
	}
	if (e->questions >= 0) {
		request.fds |= 1u << PROVER_QUESTIONS;
		fds[n++] = e->questions;
	}
	r = channel_send(p->prover, &request, sizeof(request), fds, n);
	close(lines[1]);
	e->state = RUNNING;
	return r;
}

static bool can_begin(const struct planner *p, const struct entry *e)
{
	unsigned running = 0;

	for (unsigned i = 0; i < ENTRIES_MAX; i++)
		if (p->entries[i].state == RUNNING) {
			running++;
			if (p->entries[i].user == e->user)
				return false;
		}
	return running < PLANNER_AT_ONCE;
}

/* The first one that may; NULL: none. */
static struct entry *next_waiting(struct planner *p)
{
	struct entry *next = NULL;

	for (unsigned i = 0; i < ENTRIES_MAX; i++) {
		struct entry *e = &p->entries[i];

		if (e->state == WAITING && (!next || e->order < next->order) && can_begin(p, e))
			next = e;
	}
	return next;
}

static void begin_waiting(struct planner *p)
{
	struct entry *e;

	while ((e = next_waiting(p))) {
		int r = begin(p, e);

		if (r < 0)
			fail(e, r, strerror(-r));
	}
}

/* A lack of descriptors is reported once; then the file is tried again. */
static bool is_outdated(const struct entry *e)
{
	bool lacked = e->planned.error == -EMFILE || e->planned.error == -ENFILE;

	return e->state == DONE && lacked && e->was_given && !e->references;
}

/* A new entry for the file, which is read as soon as possible. */
static int add_entry(struct planner *p, int fd, const struct stat *st, uid_t user,
		     const struct entry *wanted, struct entry **ret)
{
	struct entry *e = find_room(p, user);

	if (!e)
		return -EBUSY;
	*e = *wanted;
	e->planned.proof = e->line = e->new_stored = -1;
	e->state = WAITING;
	e->file = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	e->st = *st;
	e->user = user;
	e->order = ++p->order;
	if (e->file < 0) {
		*e = (struct entry){};
		return -EMFILE;
	}
	begin_waiting(p);
	*ret = e;
	return 0;
}

static bool is_stored(struct planner *p, const struct stat *st, const struct pack_set *set)
{
	_cleanup_close_ int fd = plan_store_open(p->store, st, set);

	return fd >= 0;
}

int planner_get(struct planner *p, int fd, uid_t user, uint64_t bits, enum plan_wanted wanted,
		struct planned **ret)
{
	const struct pack_set *set = pack_set_get(bits);
	struct entry *e;
	struct stat st;
	int r;

	if (!set)
		return -ENOMEM;
	if (fstat(fd, &st) < 0)
		return -errno;
	e = find(p, &st, set, wanted == PLAN_KNOWN ? PLAN_WHOLE : wanted);
	if (wanted == PLAN_KNOWN && (!e || e->state != DONE)) {
		e = find(p, &st, set, PLAN_KNOWN);
		if (!e && !is_stored(p, &st, set))
			return -ENODATA;
	}
	if (e && is_outdated(e)) {
		drop(e);
		e = NULL;
	}
	if (!e) {
		r = add_entry(p, fd, &st, user,
			      &(struct entry){ .questions = -1, .packs = set, .wanted = wanted },
			      &e);
		if (r < 0)
			return r;
	}
	e->used_ns = loop_now();
	if (e->state != DONE)
		return -EINPROGRESS;
	e->references++;
	e->planned.known |= e->was_given;
	e->was_given = true;
	*ret = &e->planned;
	return 0;
}

int planner_ask(struct planner *p, int fd, uid_t user, int questions, struct planned **ret)
{
	struct entry wanted = { .questions = fcntl(questions, F_DUPFD_CLOEXEC, 0) }, *e;
	struct stat st;
	int r = wanted.questions < 0 || fstat(fd, &st) < 0 ? -errno : 0;

	if (r >= 0)
		r = add_entry(p, fd, &st, user, &wanted, &e);
	if (r < 0) {
		safe_close(wanted.questions);
		return r;
	}
	e->used_ns = loop_now();
	e->references++;
	*ret = &e->planned;
	return 0;
}

bool planned_is_done(const struct planned *planned)
{
	return ((const struct entry *)planned)->state == DONE;
}

/* The process that reads the file has ended or has sent its answer: nothing else changes the proof
 * from now on. */
static void finish(struct planner *p, struct entry *e, const struct prover_answer *answer)
{
	/* With these the front would ask again for ever, or read the file each time. */
	bool is_odd = answer->result == -EINPROGRESS || answer->result == -EBUSY ||
		      answer->result == -EMFILE || answer->result == -ENFILE;
	struct plan *plan = NULL;
	int r;

	if (answer->result < 0) {
		fail(e, is_odd ? -EBADMSG : answer->result, answer->text);
		return;
	}
	r = fcntl(e->planned.proof, F_ADD_SEALS,
		  F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0
		    ? -errno
	    : e->packs ? proof_read_sites(e->planned.proof, e->packs, &plan)
		       : 0;
	if (r < 0) {
		fail(e, r == -ENOMEM ? r : -EBADMSG, "what was read from it is malformed");
		return;
	}
	e->planned.plan = plan;
	e->planned.known = answer->known;
	e->line = safe_close(e->line);
	if (e->new_stored >= 0)
		plan_store_keep(p->store, TAKE_FD(e->new_stored), answer->stored, &e->st, e->packs);
	e->state = DONE;
}

static void send_debug_file(struct entry *e, struct prover_answer *question)
{
	struct prover_debug answer = {};
	_cleanup_close_ int fd = -1;

	question->text[sizeof(question->text) - 1] = 0;
	answer.found = elf_debug_find(question->text, DEBUG_ROOT, &fd) >= 0;
	channel_answer(e->line, &answer, sizeof(answer), &fd, answer.found ? 1 : 0);
}

static void read_line(struct planner *p, struct entry *e)
{
	struct prover_answer answer;
	unsigned n;
	int r = channel_receive(e->line, &answer, sizeof(answer), NULL, 0, &n);

	if (r == -EAGAIN)
		return;
	answer.text[sizeof(answer.text) - 1] = 0;
	if (r < 0)
		fail(e, -EBADMSG, "reading it takes too much time or memory");
	else if (answer.type == PROVER_DEBUG)
		send_debug_file(e, &answer);
	else
		finish(p, e, &answer);
}

unsigned planner_poll(const struct planner *p, struct pollfd *ret)
{
	unsigned n = 0;

	/* Its end. */
	ret[n++] = (struct pollfd){ .fd = p->prover };
	for (unsigned i = 0; i < ENTRIES_MAX && n < PLANNER_POLLS; i++)
		if (p->entries[i].state == RUNNING)
			ret[n++] = (struct pollfd){ .fd = p->entries[i].line, .events = POLLIN };
	return n;
}

int planner_work(struct planner *p)
{
	struct pollfd prover = { .fd = p->prover };
	uint64_t now = loop_now();

	if (poll(&prover, 1, 0) > 0)
		return log_error_errno(-ECHILD, "the process that reads files has ended");
	for (unsigned i = 0; i < ENTRIES_MAX; i++) {
		struct entry *e = &p->entries[i];

		if (e->state == RUNNING)
			read_line(p, e);
		/* Answers are for one capture only. */
		if (e->state == DONE && !e->references &&
		    (e->questions >= 0 || now - e->used_ns > KEEP_NS))
			drop(e);
	}
	begin_waiting(p);
	return 0;
}
