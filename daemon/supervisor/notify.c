/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/supervisor/notify.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "lib/base/log.h"
#include "lib/base/macro.h"
#include "lib/base/number.h"

static int connect_to(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const size_t length = strlen(path);
	const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
	_cleanup_close_ int fd = -1;

	if (length < 2 || length >= sizeof(address.sun_path) || (*path != '/' && *path != '@'))
		return -EINVAL;
	memcpy(address.sun_path, path, length);
	/* The name of an abstract socket. */
	if (*path == '@')
		*address.sun_path = 0;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, size) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* Three times in the time after which systemd ends the daemon. */
static uint64_t watchdog_of_environment(void)
{
	const char *time = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	uint64_t us, number;

	if (!time || number_parse(time, 1, UINT32_MAX, &us) < 0)
		return 0;
	if (pid && (number_parse(pid, 1, INT32_MAX, &number) < 0 || number != (uint64_t)getpid()))
		return 0;
	return us * 1000 / 3;
}

void notify_open(struct notify *ret)
{
	const char *path = getenv("NOTIFY_SOCKET");

	*ret = (struct notify){ .fd = -1 };
	if (path) {
		ret->fd = connect_to(path);
		if (ret->fd < 0)
			log_warning_errno(ret->fd, "cannot notify %s: %m", path);
		else
			ret->watchdog_ns = watchdog_of_environment();
	}
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
}

int notify_send(int fd, enum broker_state state)
{
	static const char *const texts[] = { [BROKER_STATE_READY] = "READY=1",
					     [BROKER_STATE_STOPPING] = "STOPPING=1",
					     [BROKER_STATE_ALIVE] = "WATCHDOG=1" };
	const char *text = state < ARRAY_SIZE(texts) ? texts[state] : NULL;

	if (!text)
		return -EINVAL;
	if (fd >= 0 && send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("cannot notify: %m");
	return 0;
}
