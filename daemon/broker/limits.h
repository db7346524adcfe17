/* SPDX-License-Identifier: Apache-2.0 */
/* How much of everything the broker grants to one front, and the oldest supported kernel. */
#pragma once

#include <errno.h>
#include <stdbool.h>

/* What helps against -EMFILE. */
#define FILES_REMEDY                                                                               \
	"raise the daemon's RLIMIT_NOFILE (LimitNOFILE=, or ulimit -Hn), or end clients"

/* Whether the host lacks what the kernel needs: the error states nothing about what was asked. */
static inline bool is_out_of_room(int error)
{
	return error == -ENOMEM || error == -EMFILE || error == -ENFILE;
}

#define BROKER_MAX_CLIENTS 1024
#define BROKER_MAX_LISTENERS 512
#define BROKER_MAX_FILES 512
/* With sites in one capture; a front may name a file several times. */
#define BROKER_MAX_CAPTURE_FILES 512
/* Files of one user's processes with a plan that is in use. */
#define BROKER_MAX_USER_PLANS 128
#define BROKER_MAX_CAPTURES 16
/* Of one user besides root, whatever the front does. */
#define BROKER_MAX_USER_CAPTURES 12
/* Clients beyond the configured connections, of one user and in all: the front closes an idle
 * connection after it has accepted the next one, and a recorder keeps its client. */
#define BROKER_SPARE_CLIENTS 16
#define BROKER_MAX_TARGET_SITES 4096
#define BROKER_MAX_SITES 16384 /* of one capture */
#define BROKER_MAX_PERF_EVENTS                                                                     \
	256               /* likewise, if each is a perf event: removing one takes up to 0.15 s */
#define BROKER_MAX_FDS 16 /* with one message */
#define BROKER_RING_BYTES (16u << 20)
#define BROKER_SPARE_RING_BYTES (1u << 20)
#define BROKER_MODULE_BYTES_MAX (16 << 20) /* of the file of a module */
/* The oldest kernel that is tested (docs/kernels.md). The programs need bpf_loop(), which came with
 * 5.17. */
#define OLDEST_KERNEL "6.1"
