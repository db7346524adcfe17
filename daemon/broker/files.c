/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/files.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "daemon/broker/identity.h"
#include "daemon/broker/mappings.h"
#include "lib/base/macro.h"

struct files {
	pthread_mutex_t lock;
	uint32_t first_id; /* random: ids of an earlier broker are unknown */
	struct planner *planner;
	struct file {
		int fd; /* -1: free */
		pid_t pid;
		uid_t user;
		uint64_t start, offset;  /* where a mapping of it begins, and in the file */
		struct planned *planned; /* NULL: not yet */
		struct planned *named;   /* of BROKER_FUNCTIONS; NULL: not asked for */
	} list[BROKER_MAX_FILES];
};

int files_new(int prover, int state, struct files **ret)
{
	struct files *s = calloc(1, sizeof(*s));

	if (!s || getrandom(&s->first_id, sizeof(s->first_id), 0) != sizeof(s->first_id) ||
	    planner_new(prover, state, &s->planner) < 0) {
		free(s);
		return -ENOMEM;
	}
	pthread_mutex_init(&s->lock, NULL);
	for (unsigned i = 0; i < BROKER_MAX_FILES; i++)
		s->list[i].fd = -1;
	*ret = s;
	return 0;
}

struct files *files_free(struct files *s)
{
	if (!s)
		return NULL;
	for (unsigned i = 0; i < BROKER_MAX_FILES; i++)
		safe_close(s->list[i].fd);
	planner_free(s->planner);
	pthread_mutex_destroy(&s->lock);
	free(s);
	return NULL;
}

static struct file *file_get(struct files *s, uint32_t id)
{
	uint32_t i = id - s->first_id;

	return i < BROKER_MAX_FILES && s->list[i].fd >= 0 ? &s->list[i] : NULL;
}

static int open_file(struct files *s, struct broker_message *m)
{
	pid_t pid = (pid_t)m->pid;
	struct file *f = s->list;
	struct stat st;
	uid_t user;
	int r;

	while (f < s->list + BROKER_MAX_FILES && f->fd >= 0)
		f++;
	if (f == s->list + BROKER_MAX_FILES)
		return -EMFILE;
	r = identity_of_process(pid, &user);
	if (r < 0)
		return r;
	f->fd = mappings_open(pid, m->start, m->end, &f->offset);
	if (f->fd < 0)
		return f->fd;
	if (fstat(f->fd, &st) < 0) {
		r = -errno;
		f->fd = safe_close(f->fd);
		return r;
	}
	f->pid = pid;
	f->user = user;
	f->start = m->start;
	f->planned = f->named = NULL;
	m->id = s->first_id + (uint32_t)(f - s->list);
	m->opened = (struct broker_file){ .device = st.st_dev,
					  .inode = st.st_ino,
					  .size = (uint64_t)st.st_size };
	return 0;
}

static int plan_file(struct files *s, struct broker_message *m, int *ret_fd, unsigned *ret_n_fds)
{
	struct file *f = file_get(s, m->id);
	struct planned *planned;
	int r;

	if (!f)
		return -EINVAL;
	if (m->plan.wanted > PLAN_KNOWN)
		return -EINVAL;
	r = planner_get(s->planner, f->fd, f->user, m->plan.packs, m->plan.wanted, &planned);
	if (r < 0)
		return r;
	planned_unref(f->planned);
	f->planned = planned;
	m->plan.known = planned->known;
	if (planned->plan) {
		*ret_fd = planned->proof;
		*ret_n_fds = 1;
	} else {
		snprintf(m->text, sizeof(m->text), "%s", planned->reason);
	}
	return planned->plan ? 0 : planned->error;
}

static int name_functions(struct files *s, struct broker_message *m, int questions, int *ret_fd,
			  unsigned *ret_n_fds)
{
	struct file *f = file_get(s, m->id);
	int r = 0;

	if (!f)
		return -EINVAL;
	if (questions >= 0) {
		planned_unref(f->named);
		f->named = NULL;
		r = planner_ask(s->planner, f->fd, f->user, questions, &f->named);
	}
	if (r < 0 || !f->named)
		return r < 0 ? r : -EINVAL;
	if (!planned_is_done(f->named))
		return -EINPROGRESS;
	if (f->named->proof < 0) {
		snprintf(m->text, sizeof(m->text), "%s", f->named->reason);
		return f->named->error;
	}
	*ret_fd = f->named->proof;
	*ret_n_fds = 1;
	return 0;
}

static int close_file(struct files *s, const struct broker_message *m)
{
	struct file *f = file_get(s, m->id);

	if (!f)
		return -EINVAL;
	planned_unref(f->planned);
	planned_unref(f->named);
	f->fd = safe_close(f->fd);
	return 0;
}

static int find_sites(struct files *s, struct captures *captures, struct broker_message *m)
{
	const struct file *f = file_get(s, m->file);
	struct mapped_file file;

	if (!f || !f->planned || !f->planned->plan)
		return -EINVAL;
	file = (struct mapped_file){ .fd = f->fd,
				     .pid = f->pid,
				     .start = f->start,
				     .offset = f->offset,
				     .plan = f->planned->plan };
	for (unsigned i = 0; i < BROKER_MAX_FILES && file.n_versions < MAPPED_FILES_MAX; i++) {
		const struct file *other = &s->list[i];

		if (other->fd >= 0 && other->pid == f->pid && other->planned &&
		    other->planned->plan)
			file.versions[file.n_versions++] = other->planned->plan->version;
	}
	return captures_sites(captures, m, &file);
}

/* Calls the function with the lock held. */
#define LOCKED(s, call)                                                                            \
	({                                                                                         \
		int result_;                                                                       \
                                                                                                   \
		pthread_mutex_lock(&(s)->lock);                                                    \
		result_ = (call);                                                                  \
		pthread_mutex_unlock(&(s)->lock);                                                  \
		result_;                                                                           \
	})

int files_open(struct files *s, struct broker_message *m)
{
	return LOCKED(s, open_file(s, m));
}

int files_plan(struct files *s, struct broker_message *m, int *ret_fd, unsigned *ret_n_fds)
{
	return LOCKED(s, plan_file(s, m, ret_fd, ret_n_fds));
}

int files_functions(struct files *s, struct broker_message *m, int questions, int *ret_fd,
		    unsigned *ret_n_fds)
{
	return LOCKED(s, name_functions(s, m, questions, ret_fd, ret_n_fds));
}

int files_close(struct files *s, const struct broker_message *m)
{
	return LOCKED(s, close_file(s, m));
}

/* Neither the file nor its plan goes away meanwhile. */
int files_sites(struct files *s, struct captures *captures, struct broker_message *m)
{
	return LOCKED(s, find_sites(s, captures, m));
}

int files_directory(const struct files *s)
{
	return planner_directory(s->planner);
}

unsigned files_poll(const struct files *s, struct pollfd *ret)
{
	return planner_poll(s->planner, ret);
}

int files_work(struct files *s)
{
	return LOCKED(s, planner_work(s->planner));
}
