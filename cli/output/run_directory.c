/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/run_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/macro.h"

#define SAME_NAME_MAX 1000
#define HOST_MAX 64
#define RUN_NAME_MAX 64

/* LOGDIR, plugins, profile. */
#define LEVELS 3
static const char *const level_names[LEVELS] = { NULL, "plugins", "profile" };

struct run_directory {
	char *logdir;
	int levels[LEVELS];
	bool made[LEVELS];
	int file;
	char temporary[64];
};

static int open_level(struct run_directory *run, int level)
{
	const char *name = level ? level_names[level] : run->logdir;
	int parent = level ? run->levels[level - 1] : AT_FDCWD;

	if (!mkdirat(parent, name, 0777))
		run->made[level] = true;
	else if (errno != EEXIST)
		return -errno;
	run->levels[level] = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return run->levels[level] < 0 ? -errno : 0;
}

/* A hidden file rather than a directory: TensorBoard does not list it as a run. */
static int open_temporary(struct run_directory *run)
{
	for (int i = 0; i < SAME_NAME_MAX; i++) {
		snprintf(run->temporary, sizeof(run->temporary), ".tfprofctl-%d-%d.tmp",
			 (int)getpid(), i);
		run->file = openat(run->levels[LEVELS - 1], run->temporary,
				   O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (run->file >= 0)
			return 0;
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

int run_directory_prepare(const char *logdir, struct run_directory **ret)
{
	struct run_directory *run = calloc(1, sizeof(*run));
	int r = 0;

	if (!run)
		return -ENOMEM;
	run->file = -1;
	for (int i = 0; i < LEVELS; i++)
		run->levels[i] = -1;
	run->logdir = strdup(logdir);
	if (!run->logdir)
		r = -ENOMEM;
	/* For the path in the summary. */
	for (size_t n = r ? 0 : strlen(run->logdir); n > 1 && run->logdir[n - 1] == '/'; n--)
		run->logdir[n - 1] = '\0';
	for (int i = 0; !r && i < LEVELS; i++)
		r = open_level(run, i);
	if (!r)
		r = open_temporary(run);
	if (r < 0) {
		run_directory_free(run);
		return r;
	}
	*ret = run;
	return 0;
}

struct run_directory *run_directory_free(struct run_directory *run)
{
	if (!run)
		return NULL;
	if (run->file >= 0) {
		close(run->file);
		unlinkat(run->levels[LEVELS - 1], run->temporary, 0);
	}
	/* Only empty directories are removed: other processes may use the others by now. */
	for (int i = LEVELS - 1; i >= 0; i--) {
		safe_close(run->levels[i]);
		if (run->made[i])
			unlinkat(i ? run->levels[i - 1] : AT_FDCWD,
				 i ? level_names[i] : run->logdir, AT_REMOVEDIR);
	}
	free(run->logdir);
	free(run);
	return NULL;
}

/* Turns any text into one component of a path; a leading dot would hide it. */
static void host_file_name(const char *host, char name[static HOST_MAX])
{
	size_t n = 0;

	for (; *host && n < HOST_MAX - 1; host++) {
		bool plain = (*host >= 'a' && *host <= 'z') || (*host >= 'A' && *host <= 'Z') ||
			     (*host >= '0' && *host <= '9') || *host == '-' || *host == '_' ||
			     (*host == '.' && n);

		name[n++] = plain ? *host : '_';
	}
	name[n] = '\0';
	if (!n)
		strcpy(name, "localhost");
}

/* mkdir decides, so that two captures in the same second get different names. */
static int make_run(int profile, time_t now, char name[static RUN_NAME_MAX])
{
	struct tm local;
	size_t n;

	if (!localtime_r(&now, &local))
		return -EOVERFLOW;
	n = strftime(name, RUN_NAME_MAX, "%Y_%m_%d_%H_%M_%S", &local);
	for (int i = 2; i <= SAME_NAME_MAX; i++) {
		if (!mkdirat(profile, name, 0777))
			return 0;
		if (errno != EEXIST)
			return -errno;
		snprintf(name + n, RUN_NAME_MAX - n, "_%d", i);
	}
	return -EEXIST;
}

int run_directory_add(struct run_directory *run, const void *data, size_t size)
{
	const char *bytes = data;

	while (size) {
		ssize_t n = write(run->file, bytes, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		bytes += n;
		size -= (size_t)n;
	}
	return 0;
}

int run_directory_commit(struct run_directory *run, time_t now, const char *host, char **ret_path)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int directory = -1;
	char host_name[HOST_MAX], file_name[HOST_MAX + 16], name[RUN_NAME_MAX];
	int profile = run->levels[LEVELS - 1], r;

	r = make_run(profile, now, name);
	if (r < 0)
		return r;
	host_file_name(host, host_name);
	snprintf(file_name, sizeof(file_name), "%s.xplane.pb", host_name);
	directory = openat(profile, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (directory < 0)
		r = -errno;
	else if (asprintf(&path, "%s/plugins/profile/%s/%s", run->logdir, name, file_name) < 0) {
		path = NULL;
		r = -ENOMEM;
	} else if (renameat(profile, run->temporary, directory, file_name) < 0)
		r = -errno;
	if (r < 0) {
		unlinkat(profile, name, AT_REMOVEDIR);
		return r;
	}
	run->file = safe_close(run->file);
	memset(run->made, 0, sizeof(run->made));
	*ret_path = TAKE_PTR(path);
	return 0;
}
