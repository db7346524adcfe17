/* SPDX-License-Identifier: Apache-2.0 */
/* The files of triggers' snapshots, as the broker makes them. */
#include "daemon/broker/snapshots.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/macro.h"
#include "tests/unit/check.h"

static const struct trigger_names names = { 2, { "slow", "a-b" } };
static char path[64];
static char found[64][96];

static struct snapshots *begin_tests(uint64_t interval_ns, unsigned keep, uint64_t bytes,
				     int *ret_directory)
{
	struct snapshots_options options = {
		.triggers = names, .interval_ns = interval_ns, .keep = keep, .bytes = bytes
	};
	struct snapshots *s = NULL;

	strcpy(path, "/tmp/tfprofd-snapshots-XXXXXX");
	CHECK(mkdtemp(path) != NULL);
	options.directory = *ret_directory = open(path, O_RDONLY | O_DIRECTORY);
	CHECK_EQ(snapshots_new(&options, &s), 0);
	return s;
}

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

static unsigned list(void)
{
	DIR *d = opendir(path);
	struct dirent *entry;
	unsigned n = 0;

	while ((entry = readdir(d)))
		if (*entry->d_name != '.' && n < ARRAY_SIZE(found))
			snprintf(found[n++], sizeof(found[0]), "%.95s", entry->d_name);
	closedir(d);
	qsort(found, n, sizeof(found[0]), compare);
	return n;
}

static void end_tests(struct snapshots *s, int directory)
{
	for (unsigned i = list(); i > 0; i--)
		unlinkat(directory, found[i - 1], 0);
	snapshots_free(s);
	close(directory);
	rmdir(path);
}

/* The result of a whole one of that size. */
static int keep(struct snapshots *s, const char *trigger, size_t size, struct broker_message *m)
{
	_cleanup_free_ char *bytes = calloc(1, size + 1);
	int fd = -1, r;

	*m = (struct broker_message){ .pid = 77 };
	strcpy(m->name, trigger);
	r = snapshots_begin(s, m, &fd);
	if (r < 0)
		return r;
	CHECK_EQ(write(fd, bytes, size), (ssize_t)size);
	m->count = 1;
	/* Names have milliseconds. */
	nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
	return snapshots_end(s, m, (uid_t)-1);
}

TEST(a_file_appears_whole_under_a_name_of_the_broker_and_is_readable_by_its_owner)
{
	struct broker_message m;
	struct stat st;
	int directory, fd;
	struct snapshots *s = begin_tests(0, 10, 1000, &directory);

	m = (struct broker_message){ .pid = 77, .name = "../../x" };
	CHECK_EQ(snapshots_begin(s, &m, &fd), -ENOENT);
	strcpy(m.name, "a-b");
	CHECK_EQ(snapshots_begin(s, &m, &fd), 0);
	CHECK_EQ(fcntl(fd, F_GETFL) & O_ACCMODE, O_WRONLY);
	CHECK_EQ(write(fd, "12345", 5), 5);
	CHECK_EQ(list(), 0);
	m = (struct broker_message){ .count = 1, .pid = 1, .name = "slow" };
	CHECK_EQ(snapshots_end(s, &m, (uid_t)-1), -EINVAL);
	strcpy(m.name, "a-b");
	CHECK_EQ(snapshots_end(s, &m, (uid_t)-1), 0);
	CHECK_EQ(list(), 1);
	CHECK_STR(found[0], m.name);
	CHECK(strlen(m.name) == strlen("20261123T191924.123Z-a-b-77.tfp") &&
	      strstr(m.name, "Z-a-b-77.tfp"));
	CHECK_EQ(m.start, 5);
	CHECK_EQ(fstatat(directory, m.name, &st, 0), 0);
	CHECK_EQ(st.st_mode & 07777, 0600);
	end_tests(s, directory);
}

TEST(what_is_not_complete_leaves_nothing)
{
	struct broker_message m = { .name = "slow" };
	int directory, fd;
	struct snapshots *s = begin_tests(0, 10, 1000, &directory);

	CHECK_EQ(snapshots_begin(s, &m, &fd), 0);
	CHECK_EQ(write(fd, "1", 1), 1);
	m.count = 0;
	CHECK_EQ(snapshots_end(s, &m, (uid_t)-1), 0);
	/* Nothing is begun; nothing was written; it is too long. */
	m.count = 1;
	CHECK_EQ(snapshots_end(s, &m, (uid_t)-1), -EINVAL);
	CHECK_EQ(keep(s, "slow", 0, &m), -EINVAL);
	CHECK_EQ(keep(s, "slow", 1001, &m), -EFBIG);
	CHECK(strstr(m.text, "snapshots-size"));
	CHECK_EQ(snapshots_begin(s, &m, &fd), 0);
	CHECK_EQ(list(), 0);
	end_tests(s, directory);
}

TEST(there_is_one_of_each_trigger_per_interval_whatever_became_of_the_last)
{
	struct broker_message m = { .name = "slow" };
	struct snapshots_options options;
	int directory, fd;
	struct snapshots *s = begin_tests(3600000000000, 10, 1000, &directory), *next;

	CHECK_EQ(snapshots_begin(s, &m, &fd), 0);
	m.count = 0;
	CHECK_EQ(snapshots_end(s, &m, (uid_t)-1), 0);
	CHECK_EQ(keep(s, "slow", 5, &m), -EALREADY);
	CHECK_EQ(keep(s, "a-b", 5, &m), 0);
	CHECK_EQ(keep(s, "a-b", 5, &m), -EALREADY);
	CHECK_EQ(keep(s, "c", 5, &m), -ENOENT);
	/* Another broker knows it from the files. */
	options = (struct snapshots_options){ .directory = directory,
					      .triggers = names,
					      .interval_ns = 3600000000000,
					      .keep = 10,
					      .bytes = 1000 };
	CHECK_EQ(snapshots_new(&options, &next), 0);
	CHECK_EQ(keep(next, "a-b", 5, &m), -EALREADY);
	CHECK_EQ(keep(next, "slow", 5, &m), 0);
	snapshots_free(next);
	end_tests(s, directory);
}

TEST(the_oldest_are_removed_by_number_and_by_bytes_and_nothing_else)
{
	struct broker_message m;
	char second[96];
	int directory, fd;
	struct snapshots *s = begin_tests(0, 3, 100, &directory);

	fd = openat(directory, "20000101T000000.000Z-slow-x.tfp", O_CREAT | O_WRONLY, 0600);
	close(fd);
	CHECK_EQ(mkdirat(directory, "20000101T000000.000Z-slow-1.tfp", 0700), 0);
	CHECK_EQ(keep(s, "slow", 10, &m), 0);
	CHECK_EQ(keep(s, "a-b", 10, &m), 0);
	snprintf(second, sizeof(second), "%.95s", m.name);
	CHECK_EQ(keep(s, "slow", 10, &m), 0);
	CHECK_EQ(list(), 5);
	CHECK_EQ(keep(s, "slow", 10, &m), 0);
	CHECK_EQ(list(), 5);
	CHECK_STR(found[0], "20000101T000000.000Z-slow-1.tfp");
	CHECK_STR(found[1], "20000101T000000.000Z-slow-x.tfp");
	CHECK_STR(found[2], second);
	/* With 10 bytes of one that is kept, 90 more are 100 in all. */
	CHECK_EQ(keep(s, "slow", 90, &m), 0);
	CHECK_EQ(list(), 4);
	CHECK_STR(found[3], m.name);
	CHECK_EQ(keep(s, "slow", 91, &m), 0);
	CHECK_EQ(list(), 3);
	unlinkat(directory, "20000101T000000.000Z-slow-1.tfp", AT_REMOVEDIR);
	end_tests(s, directory);
}

TEST(without_a_directory_there_are_none)
{
	struct snapshots_options options = { .directory = -1, .triggers = names };
	struct broker_message m = { .name = "slow" };
	struct snapshots *s;
	int fd;

	CHECK_EQ(snapshots_new(&options, &s), 0);
	CHECK_EQ(snapshots_begin(s, &m, &fd), -EINVAL);
	snapshots_free(s);
}

TEST(new_triggers_take_their_turn_and_the_intervals_of_the_old_ones_go_on)
{
	const struct trigger_names next = { 2, { "new", "slow" } };
	struct broker_message m = { .name = "a-b" };
	int directory, fd;
	struct snapshots *s = begin_tests(3600000000000, 10, 1000, &directory);

	CHECK_EQ(keep(s, "slow", 5, &m), 0);
	m = (struct broker_message){ .name = "a-b" };
	CHECK_EQ(snapshots_begin(s, &m, &fd), 0);
	CHECK_EQ(write(fd, "1", 1), 1);
	snapshots_set_triggers(s, &next);
	/* What was begun is complete. */
	m.count = 1;
	CHECK_EQ(snapshots_end(s, &m, (uid_t)-1), 0);
	CHECK(strstr(m.name, "Z-a-b-"));
	CHECK_EQ(keep(s, "a-b", 5, &m), -ENOENT);
	CHECK_EQ(keep(s, "slow", 5, &m), -EALREADY);
	CHECK_EQ(keep(s, "new", 5, &m), 0);
	/* Also of those that return. */
	snapshots_set_triggers(s, &names);
	CHECK_EQ(keep(s, "a-b", 5, &m), -EALREADY);
	CHECK_EQ(keep(s, "new", 5, &m), -ENOENT);
	end_tests(s, directory);
}

TEST(names_that_would_be_no_names_of_files_are_refused)
{
	struct trigger_names bad = names;

	CHECK(trigger_names_are_valid(&names));
	strcpy(bad.names[1], "a/b");
	CHECK(!trigger_names_are_valid(&bad));
	strcpy(bad.names[1], "");
	CHECK(!trigger_names_are_valid(&bad));
	strcpy(bad.names[1], "slow");
	CHECK(!trigger_names_are_valid(&bad));
	memset(bad.names[1], 'a', sizeof(bad.names[1]));
	CHECK(!trigger_names_are_valid(&bad));
	bad = names;
	bad.n = TRIGGERS_MAX + 1;
	CHECK(!trigger_names_are_valid(&bad));
}

CHECK_MAIN()
