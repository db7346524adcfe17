/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's configuration: its flags, its file (docs/configuration.md), and defaults, in this
 * order. Flags and file belong to root, and are read before any client is served.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

#include "daemon/broker/authority.h"
#include "daemon/plan/trigger_rule.h"
#include "daemon/timeline/filter.h"

#define CONFIG_TARGETS_MAX 256
#define CONFIG_KEYS_MAX 64
#define CONFIG_USER_TARGETS_MAX 224
#define CONFIG_TEXT 200

/* The settings of captures at the port of a single target; zeros: as without a configuration. */
struct config_target {
	char *pattern;      /* a glob of the process's name or of its pid */
	char *path, *model; /* of the filter */
	struct request_filter filter;
	double max_overhead; /* percent */
	unsigned level;
	bool input_stages;
};

/* A TCP port; port 0: none. */
struct config_address {
	char host[64];
	uint16_t port;
};

struct config {
	char socket[sizeof(((struct sockaddr_un *)0)->sun_path)];
	struct config_address listen, tls_listen;
	struct config_ports {
		uint16_t first, last; /* 0: none */
	} target_ports;
	char tls_certificate[PATH_MAX], tls_key[PATH_MAX], tls_client_ca[PATH_MAX];
	char tls_revoked[PATH_MAX]; /* certificates, a list of the authorities */
	char tls_users[PATH_MAX];   /* which user a certificate belongs to */
	struct {
		struct config_address address;
		char path[sizeof(
			/* Instead of it, "": none. */
			((struct sockaddr_un *)0)->sun_path)];
	} metrics;
	char metrics_hosts[256]; /* more names of this host, with commas between them */
	char state[512];
	bool perf_event_uprobes;
	bool verbose;
	bool lifecycle;         /* watch how processes start */
	bool recorder_clients;  /* clients may start the recorder */
	char captures_user[64]; /* as whom the daemon captures on its own */
	struct authority access;
	uint64_t max_duration_ns;
	unsigned max_captures, max_captures_per_user;
	/* What clients of one user, other than root, may hold. */
	unsigned max_connections, max_connections_per_user, max_targets_per_user;
	uint64_t ring_bytes_per_user, keep_programs_ns;
	struct {
		unsigned level; /* 0: off */
		uint64_t last_ns;
		uint64_t bytes;
		double max_overhead; /* percent */
	} recorder;

	struct config_snapshots {
		char directory[PATH_MAX]; /* "": none */
		uint64_t interval_ns;     /* between two of one trigger */
		unsigned keep;
		uint64_t bytes;
	} snapshots;
	struct trigger_rule triggers[TRIGGERS_MAX];
	unsigned n_triggers;

	struct config_target targets[CONFIG_TARGETS_MAX];
	unsigned n_targets;
	/* Keys given as flags, which the file does not change. */
	bool is_flag[CONFIG_KEYS_MAX];

	/* Flags only. */
	char file[PATH_MAX]; /* absolute, "": none */
	bool check, foreground;
};

/*
 * Reads the flags and the file that they name. 0; 1: --help or --version was given and printed;
 * -EINVAL, -ENOMEM or the error of reading the file, with a sentence and its remedy in ret_text.
 */
int config_new(int argc, char *argv[], struct config **ret, char *ret_text, size_t text_size);
/*
 * Reads the same flags and the text of the file again. What cannot change while the daemon runs
 * keeps the old value, and restart(name, data) is called for each such key. The names of users and
 * groups are not looked up: config_resolve().
 */
int config_renew(const struct config *old, int argc, char *argv[], int file_fd,
		 void (*restart)(const char *name, void *data), void *data, struct config **ret,
		 char *ret_text, size_t text_size);
/* Looks up the names of users and groups. -EINVAL: there is none of a name, with the sentence in
 * ret_text. */
int config_resolve(struct config *config, char *ret_text, size_t text_size);
struct config *config_free(struct config *config);

/* The first section that matches the process, NULL: none. */
const struct config_target *config_find(const struct config *config, pid_t pid, const char *name);
