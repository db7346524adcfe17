/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/certificates.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/macro.h"
#include "lib/base/number.h"

#define CERTIFICATES_MAX 4096
#define PASSWD "/etc/passwd"

struct certificates {
	struct certificate_user {
		uid_t uid;
		char name[CERTIFICATE_NAME_MAX];
	} * list;
	unsigned n;
};

struct certificates *certificates_free(struct certificates *c)
{
	if (!c)
		return NULL;
	free(c->list);
	free(c);
	return NULL;
}

/* Only the file: other sources of users would need a network, which the broker does not have. */
static int find_user(const char *name, uid_t *ret)
{
	struct passwd *entry;
	uint64_t number;
	int r = -ENOENT;
	FILE *f;

	if (number_parse(name, 0, UINT32_MAX - 1, &number) == 0) {
		*ret = (uid_t)number;
		return 0;
	}
	f = fopen(PASSWD, "re");
	while (f && r < 0 && (entry = fgetpwent(f)))
		if (!strcmp(entry->pw_name, name)) {
			*ret = entry->pw_uid;
			r = 0;
		}
	if (f)
		fclose(f);
	return r;
}

static int take_line(struct certificates *c, char *line, char *text, size_t size)
{
	struct certificate_user *entry = &c->list[c->n];
	char *user, *name;
	uid_t other;

	line[strcspn(line, "\r\n")] = 0;
	user = line + strspn(line, " \t");
	if (!*user || *user == '#')
		return 0;
	name = user + strcspn(user, " \t");
	if (*name)
		*name++ = 0;
	name += strspn(name, " \t");
	for (char *end = name + strlen(name); end > name && (end[-1] == ' ' || end[-1] == '\t');)
		*--end = 0;
	if (!*name || strlen(name) >= sizeof(entry->name)) {
		snprintf(text, size,
			 "use USER NAME, with a name of a certificate of at most %zu bytes",
			 sizeof(entry->name) - 1);
		return -EINVAL;
	}
	if (c->n == CERTIFICATES_MAX) {
		snprintf(text, size, "there are more than %d certificates", CERTIFICATES_MAX);
		return -E2BIG;
	}
	if (certificates_find(c, name, &other) == 0) {
		snprintf(text, size, "'%.80s' has a user already", name);
		return -EINVAL;
	}
	if (find_user(user, &entry->uid) < 0) {
		snprintf(text, size, "no user '%.40s' in " PASSWD ": use its number", user);
		return -EINVAL;
	}
	strcpy(entry->name, name);
	c->n++;
	return 0;
}

static FILE *open_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	FILE *f;

	if (fd < 0 || fstat(fd, &st) < 0) {
		snprintf(text, size, "cannot read %s: %s", path, strerror(errno));
		safe_close(fd);
		return NULL;
	}
	if (!S_ISREG(st.st_mode) || st.st_uid || st.st_mode & 022) {
		snprintf(
			text, size,
			"cannot use %s: it must be a file of root that nobody else may write (chmod go-w)",
			path);
		close(fd);
		return NULL;
	}
	f = fdopen(fd, "r");
	if (!f)
		close(fd);
	return f;
}

int certificates_read(const char *path, struct certificates **ret, char *ret_text, size_t text_size)
{
	FILE *f = open_file(path, ret_text, text_size);
	struct certificates *c = calloc(1, sizeof(*c));
	_cleanup_free_ char *line = NULL;
	unsigned number = 0;
	char text[160] = "";
	size_t size = 0;
	int r = 0;

	if (c)
		c->list = calloc(CERTIFICATES_MAX + 1, sizeof(c->list[0]));
	if (!f || !c || !c->list) {
		if (f)
			snprintf(ret_text, text_size, "out of memory");
		r = f ? -ENOMEM : -EINVAL;
	}
	while (r == 0 && getline(&line, &size, f) >= 0) {
		number++;
		r = take_line(c, line, text, sizeof(text));
		if (r < 0)
			snprintf(ret_text, text_size, "%s:%u: %s", path, number, text);
	}
	if (f)
		fclose(f);
	if (r < 0) {
		certificates_free(c);
		return r;
	}
	*ret = c;
	return 0;
}

int certificates_find(const struct certificates *c, const char *name, uid_t *ret)
{
	for (unsigned i = 0; c && i < c->n; i++)
		if (!strcmp(c->list[i].name, name)) {
			*ret = c->list[i].uid;
			return 0;
		}
	return -ENOENT;
}
