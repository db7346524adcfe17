/* SPDX-License-Identifier: Apache-2.0 */
/* The audit log of the broker: what its lines hold, and that neither clients nor the front can
 * forge or flood them. */
#include "daemon/broker/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/log.h"
#include "lib/base/rate_limit.h"
#include "tests/unit/check.h"

#define UID 1000

static char directory[64], text[1 << 20];
static int fd, notes[2], client[2];

static struct audit *begin(void)
{
	struct audit *a = NULL;

	log_set_level(LOG_ERR);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, notes), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, client), 0);
	strcpy(directory, "/tmp/tfprofd-audit-XXXXXX");
	CHECK(mkdtemp(directory));
	fd = open(directory, O_RDONLY | O_DIRECTORY);
	CHECK_EQ(audit_new(fd, &a), 0);
	return a;
}

/* The content of a file of the directory. */
static const char *content(const char *name)
{
	int file = openat(fd, name, O_RDONLY);
	ssize_t n = file >= 0 ? read(file, text, sizeof(text) - 1) : 0;

	text[n > 0 ? n : 0] = 0;
	if (file >= 0)
		close(file);
	return text;
}

static void end(void)
{
	unlinkat(fd, AUDIT_FILE, 0);
	unlinkat(fd, AUDIT_FILE_OLD, 0);
	CHECK_EQ(rmdir(directory), 0);
	close(fd);
	for (unsigned i = 0; i < 2; i++) {
		close(notes[i]);
		close(client[i]);
	}
}

static unsigned count(const char *of, const char *what)
{
	unsigned n = 0;

	for (const char *at = of; (at = strstr(at, what)); at += strlen(what))
		n++;
	return n;
}

static void note_of(struct audit *a, const struct audit_note *note)
{
	CHECK_EQ(send(notes[0], note, sizeof(*note), 0), sizeof(*note));
	audit_read_notes(a, notes[1]);
}

static void answer(struct audit *a, uint32_t type, uint32_t id, pid_t pid, int result,
		   uint32_t answer_id)
{
	const struct audit_asked asked = { .type = type, .id = id, .pid = (uint32_t)pid };
	struct broker_message m = { .type = type, .result = result, .id = answer_id };

	if (result < 0)
		strcpy(m.text, "not permitted");
	audit_answer(a, &asked, &m);
}

TEST(a_capture_has_a_line_for_each_decision_with_its_numbers)
{
	const struct capture_counts counts = { .records = 12, .bytes = 3456, .lost = 1 };
	struct audit *a = begin();
	char own[64];

	audit_client(a, 5, UID, client[0]);
	answer(a, BROKER_CAPTURE, 5, 0, 0, 3);
	answer(a, BROKER_TARGET, 3, getpid(), 0, 3);
	answer(a, BROKER_TARGET, 3, 1, -EACCES, 3);
	answer(a, BROKER_ATTACH, 3, 0, 0, 3);
	answer(a, BROKER_ATTACH, 3, 0, 0, 3);
	audit_count(a, 3, &counts);
	answer(a, BROKER_END, 3, 0, 0, 3);
	/* What is asked about it afterwards is not a decision. */
	answer(a, BROKER_END, 3, 0, -EINVAL, 3);
	content(AUDIT_FILE);
	snprintf(own, sizeof(own), "client_uid=%d client_pid=%d client_exe=", UID, getpid());
	CHECK_EQ(count(text, "\n"), 5);
	CHECK_EQ(count(text, own), 5);
	CHECK_EQ(count(text, " verdict=allow action=capture "), 1);
	CHECK_EQ(count(text, " verdict=deny action=capture "), 1);
	CHECK_EQ(count(text, " target_pid=1 "), 1);
	CHECK_EQ(count(text, "reason=\"not permitted\""), 1);
	CHECK_EQ(count(text, " verdict=start "), 1);
	CHECK_EQ(count(text, " verdict=lost "), 1);
	CHECK_EQ(count(text, " events=12 bytes=3456 lost=1\n"), 2);
	audit_free(a);
	end();
}

TEST(a_process_that_a_capture_loses_has_its_line)
{
	struct audit *a = begin();

	audit_client(a, 5, UID, -1);
	answer(a, BROKER_CAPTURE, 5, 0, 0, 3);
	answer(a, BROKER_TARGET, 3, getpid(), 0, 3);
	audit_lost_target(a, 3, getpid(), "the rules are others now");
	/* No capture has this id. */
	audit_lost_target(a, 4, getpid(), "x");
	audit_lost_target(a, BROKER_MAX_CAPTURES, getpid(), "x");
	content(AUDIT_FILE);
	CHECK_EQ(count(text, "\n"), 2);
	CHECK_EQ(count(text, " verdict=deny action=capture client_uid=1000 capture=3 target_pid="),
		 1);
	CHECK_EQ(count(text, " reason=\"the rules are others now\"\n"), 1);
	audit_free(a);
	end();
}

TEST(captures_that_run_when_the_daemon_ends_have_their_end)
{
	struct audit *a = begin();

	audit_client(a, 5, UID, -1);
	answer(a, BROKER_CAPTURE, 5, 0, 0, 0);
	audit_free(a);
	content(AUDIT_FILE);
	CHECK_EQ(count(text, " verdict=stop "), 1);
	CHECK_EQ(count(text, "reason=\"the daemon ends\""), 1);
	end();
}

TEST(the_front_cannot_forge_a_line_and_its_lines_are_marked)
{
	struct audit_note note = { .verdict = AUDIT_DENY, .action = AUDIT_CAPTURE, .client = 5 };
	struct audit *a = begin();

	audit_client(a, 5, UID, -1);
	strcpy(note.reason, "x\nverdict=allow reported_by=kernel \x1b[2J\"");
	memset(note.subject, 'a', sizeof(note.subject));
	note_of(a, &note);
	content(AUDIT_FILE);
	CHECK_EQ(count(text, "\n"), 1);
	CHECK_EQ(count(text, "\x1b"), 0);
	CHECK_EQ(count(text, "\""), 2);
	CHECK(strstr(text, "\" reported_by=front\n"));
	audit_free(a);
	end();
}

TEST(a_client_in_a_loop_writes_a_few_lines_and_their_number)
{
	struct audit_note note = { .verdict = AUDIT_DENY, .action = AUDIT_CAPTURE, .client = 5 };
	struct broker_message m = { .type = BROKER_ACCEPT, .result = -EACCES, .uid = UID };
	const struct audit_asked asked = { .type = BROKER_ACCEPT };
	struct audit *a = begin();

	audit_client(a, 5, UID, -1);
	for (unsigned i = 0; i < 5000; i++) {
		note_of(a, &note);
		audit_answer(a, &asked, &m);
	}
	content(AUDIT_FILE);
	CHECK_EQ(count(text, "\n"), 2 * RATE_LIMIT_BURST);
	audit_tick(a, UINT64_MAX / 2);
	content(AUDIT_FILE);
	CHECK_EQ(count(text, "\n"), 2 * RATE_LIMIT_BURST + 2);
	CHECK_EQ(count(text, "reason=\"4995 more refused\""), 2);
	audit_free(a);
	end();
}

TEST(random_notes_do_no_harm)
{
	struct audit *a = begin();
	struct audit_note note;

	srand(3);
	for (unsigned i = 0; i < 20000; i++) {
		for (size_t k = 0; k < sizeof(note); k++)
			((unsigned char *)&note)[k] = (unsigned char)rand();
		note.verdict %= AUDIT_VERDICTS + 2;
		note.action %= AUDIT_ACTIONS + 1;
		note.pid = 0;
		note_of(a, &note);
	}
	content(AUDIT_FILE);
	for (const char *c = text; *c; c++)
		CHECK((unsigned char)*c >= ' ' || *c == '\n');
	audit_free(a);
	end();
}

/* What a file system without space does: a write stores a part of its bytes, and the next none. */
static void limit_files(rlim_t bytes)
{
	const struct rlimit limit = { bytes, RLIM_INFINITY };

	signal(SIGXFSZ, SIG_IGN);
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

TEST(lines_are_whole_when_space_ends_within_one_and_those_that_are_missing_are_counted)
{
	struct audit *a = begin();
	struct stat st;
	size_t size;

	answer(a, BROKER_CAPTURE, 6, 0, -ECANCELED, 0);
	size = strlen(content(AUDIT_FILE));
	limit_files(size + 10);
	for (unsigned i = 0; i < 3; i++)
		answer(a, BROKER_CAPTURE, 6, 0, -ECANCELED, 0);
	CHECK_EQ(fstatat(fd, AUDIT_FILE, &st, 0), 0);
	CHECK_EQ(st.st_size, size);
	limit_files(RLIM_INFINITY);
	answer(a, BROKER_CAPTURE, 6, 0, -ECANCELED, 0);
	content(AUDIT_FILE);
	CHECK_EQ(count(text, "\n"), 3);
	CHECK_EQ(count(text, "time="), 3);
	CHECK_EQ(count(text, " verdict=deny "), 2);
	CHECK(strstr(text,
		     " verdict=lost action=log reason=\"3 lines could not be written here: "));
	audit_free(a);
	end();
}

TEST(a_line_that_an_earlier_daemon_did_not_finish_is_ended)
{
	struct audit *a = begin();
	int file;

	audit_free(a);
	file = openat(fd, AUDIT_FILE, O_WRONLY | O_APPEND);
	CHECK_EQ(write(file, "time=1 verdict=al", 17), 17);
	close(file);
	CHECK_EQ(audit_new(fd, &a), 0);
	answer(a, BROKER_CAPTURE, 6, 0, -ECANCELED, 0);
	content(AUDIT_FILE);
	CHECK_EQ(count(text, "\n"), 2);
	CHECK_EQ(count(text, "\ntime="), 1);
	audit_free(a);
	end();
}

TEST(a_file_that_cannot_be_opened_is_tried_again)
{
	struct audit *a = begin();

	audit_free(a);
	CHECK_EQ(unlinkat(fd, AUDIT_FILE, 0), 0);
	CHECK_EQ(mkdirat(fd, AUDIT_FILE, 0700), 0);
	CHECK_EQ(audit_new(fd, &a), 0);
	answer(a, BROKER_CAPTURE, 6, 0, -ECANCELED, 0);
	CHECK_EQ(unlinkat(fd, AUDIT_FILE, AT_REMOVEDIR), 0);
	answer(a, BROKER_CAPTURE, 6, 0, -ECANCELED, 0);
	content(AUDIT_FILE);
	CHECK_EQ(count(text, "\n"), 2);
	CHECK_EQ(count(text, "reason=\"1 line could not be written here: Is a directory\""), 1);
	audit_free(a);
	end();
}

TEST(a_full_file_becomes_the_old_one)
{
	struct audit *a = begin();
	struct stat st;

	audit_client(a, 5, UID, -1);
	CHECK_EQ(ftruncate(openat(fd, AUDIT_FILE, O_WRONLY), AUDIT_FILE_BYTES), 0);
	audit_free(a);
	CHECK_EQ(audit_new(fd, &a), 0);
	answer(a, BROKER_CAPTURE, 6, 0, -ECANCELED, 0);
	CHECK_EQ(fstatat(fd, AUDIT_FILE_OLD, &st, 0), 0);
	CHECK_EQ(st.st_size, AUDIT_FILE_BYTES);
	CHECK_EQ(fstatat(fd, AUDIT_FILE, &st, 0), 0);
	CHECK(st.st_size < 1000);
	CHECK_EQ(st.st_mode & 0777, 0600);
	audit_free(a);
	end();
}

CHECK_MAIN()
