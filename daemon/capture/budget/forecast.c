/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture/budget/forecast.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "daemon/broker/message.h"
#include "lib/base/log.h"
#include "lib/base/macro.h"

#define FILE_NAME "calibration"
#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define LINE_MAX_BYTES 128

/* Measured on a virtual machine with Linux 6.18. */
static const struct broker_calibration elsewhere = { .emulated_ns = 1500,
						     .stepped_ns = 16000,
						     .switch_ns = 400,
						     .call_ns = 2500,
						     .detach_us = 100000 };

static bool read_line(int directory, const char *name, char ret[LINE_MAX_BYTES])
{
	_cleanup_close_ int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n = fd >= 0 ? read(fd, ret, LINE_MAX_BYTES - 1) : -1;

	ret[n > 0 ? n : 0] = 0;
	ret[strcspn(ret, "\n")] = 0;
	return n > 0;
}

static bool load(int directory, const char *boot, bool perf_events, struct broker_calibration *ret)
{
	char line[LINE_MAX_BYTES], of[64];
	unsigned by_perf_events;

	return read_line(directory, FILE_NAME, line) &&
	       sscanf(line, "%63s %u %u %u %u %u %u %u %u", of, &by_perf_events, &ret->emulated_ns,
		      &ret->stepped_ns, &ret->switch_ns, &ret->nop5, &ret->call_ns,
		      &ret->any_call_ns, &ret->detach_us) == 9 &&
	       !strcmp(of, boot) && by_perf_events == perf_events && ret->emulated_ns &&
	       ret->stepped_ns;
}

static void store(int directory, const char *boot, bool perf_events,
		  const struct broker_calibration *c)
{
	_cleanup_close_ int fd =
		openat(directory, FILE_NAME ".new",
		       O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r = 0;

	if (fd < 0 ||
	    dprintf(fd, "%s %u %u %u %u %u %u %u %u\n", boot, perf_events, c->emulated_ns,
		    c->stepped_ns, c->switch_ns, c->nop5, c->call_ns, c->any_call_ns,
		    c->detach_us) < 0 ||
	    renameat(directory, FILE_NAME ".new", directory, FILE_NAME) < 0)
		r = -errno;
	if (r >= 0)
		return;
	unlinkat(directory, FILE_NAME ".new", 0);
	log_warning_errno(
		r,
		"cannot store what probes cost on this machine: %m; the daemon measures it again");
}

void forecast_get(struct proxy *proxy, int directory, struct forecast *ret)
{
	struct broker_message mode = { .type = BROKER_MODE }, m = { .type = BROKER_CALIBRATE };
	char boot[LINE_MAX_BYTES] = "";
	bool kept;

	*ret = (struct forecast){ .measured = true };
	ret->perf_events =
		proxy_call(proxy, &mode, NULL, NULL) >= 0 && mode.index == ATTACH_PERF_EVENT;
	kept = directory >= 0 && read_line(AT_FDCWD, BOOT_ID, boot);
	if (kept && load(directory, boot, ret->perf_events, &ret->calibration))
		return;
	if (proxy_call(proxy, &m, NULL, NULL) < 0) {
		*ret = (struct forecast){ .calibration = elsewhere,
					  .perf_events = ret->perf_events };
		snprintf(ret->failure, sizeof(ret->failure), "%.*s", (int)sizeof(ret->failure) - 1,
			 *m.text ? m.text : "the broker does not answer");
		return;
	}
	ret->calibration = m.calibration;
	/* One whose batches disagree is not stored. */
	if (kept && m.calibration.steady)
		store(directory, boot, ret->perf_events, &m.calibration);
}

uint32_t forecast_site(const struct forecast *f, const struct plan_site *site)
{
	switch (site->site.class) {
	case SITE_EMULATED:
		return f->calibration.emulated_ns;
	case SITE_SINGLE_STEPPED:
		return f->calibration.stepped_ns;
	default:
		return 0;
	}
}
