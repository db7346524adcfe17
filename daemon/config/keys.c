/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config/keys.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/broker/limits.h"
#include "lib/base/duration.h"
#include "lib/base/macro.h"
#include "lib/base/nearest.h"
#include "lib/base/number.h"
#include "lib/base/percent.h"

#define SECOND 1000000000ull
#define MIB (1ull << 20)
#define RECORDER_BYTES_MAX (4096 * MIB)
#define RECORDER_LAST_MAX_NS (600 * SECOND)
#define SNAPSHOTS_MAX 10000
#define SNAPSHOTS_BYTES_MAX (1024 * 1024 * MIB)
#define CONNECTIONS_MAX (BROKER_MAX_CLIENTS - BROKER_SPARE_CLIENTS)

#define REFUSE(text, ...) (snprintf((text), CONFIG_TEXT, __VA_ARGS__), -EINVAL)
#define FIELD(config, key) ((void *)((char *)(config) + (key)->offset))

static int take_text(const struct config_key *key, struct config *config, const char *value,
		     char text[static CONFIG_TEXT])
{
	if (!*value)
		return REFUSE(text, "a value is missing");
	if (strlen(value) >= key->size)
		return REFUSE(text, "the value is longer than %zu bytes", key->size - 1);
	strcpy(FIELD(config, key), value);
	return 0;
}

/* The daemon changes to /, so paths must be absolute. */
static int take_path(const struct config_key *key, struct config *config, const char *value,
		     char text[static CONFIG_TEXT])
{
	char directory[PATH_MAX];
	int n;

	if (*value == '/' || !*value)
		return take_text(key, config, value, text);
	if (!getcwd(directory, sizeof(directory)))
		return REFUSE(text, "'%.80s' is not an absolute path", value);
	n = snprintf(FIELD(config, key), key->size, "%s/%s", directory, value);
	return n < 0 || (size_t)n >= key->size
		       ? REFUSE(text, "the value is longer than %zu bytes", key->size - 1)
		       : 0;
}

int config_take_bool(const char *value, bool *ret, char text[static CONFIG_TEXT])
{
	*ret = !strcmp(value, "yes");
	return *ret || !strcmp(value, "no")
		       ? 0
		       : REFUSE(text, "invalid value '%.40s': use yes or no", value);
}

static int take_bool(const struct config_key *key, struct config *config, const char *value,
		     char text[static CONFIG_TEXT])
{
	return config_take_bool(value, FIELD(config, key), text);
}

static int parse_address(struct config_address *address, const char *value,
			 char text[static CONFIG_TEXT])
{
	const char *colon = strrchr(value, ':');
	struct in_addr parsed;
	uint64_t port;

	if (!colon || colon == value || (size_t)(colon - value) >= sizeof(address->host) ||
	    number_parse(colon + 1, 1, 65535, &port) < 0)
		return REFUSE(text, "invalid address '%.80s': use HOST:PORT", value);
	snprintf(address->host, sizeof(address->host), "%.*s", (int)(colon - value), value);
	if (!strcmp(address->host, "localhost"))
		strcpy(address->host, "127.0.0.1");
	if (inet_pton(AF_INET, address->host, &parsed) != 1)
		return REFUSE(text, "invalid address '%.80s': HOST must be an IPv4 address", value);
	address->port = (uint16_t)port;
	return 0;
}

static int take_address(const struct config_key *key, struct config *config, const char *value,
			char text[static CONFIG_TEXT])
{
	struct config_address *address = FIELD(config, key);

	if (strcmp(value, "no"))
		return parse_address(address, value, text);
	*address = (struct config_address){};
	return 0;
}

static bool is_loopback(const char *host)
{
	struct in_addr address;

	return inet_pton(AF_INET, host, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

static int take_loopback(const struct config_key *key, struct config *config, const char *value,
			 char text[static CONFIG_TEXT])
{
	const struct config_address *address = FIELD(config, key);
	int r = take_address(key, config, value, text);

	if (r == 0 && address->port && !is_loopback(address->host))
		return REFUSE(
			text,
			"'%.80s' is not a loopback address: any other address would admit every host",
			value);
	return r;
}

static int take_metrics(const struct config_key *key, struct config *config, const char *value,
			char text[static CONFIG_TEXT])
{
	*config->metrics.path = 0;
	config->metrics.address = (struct config_address){};
	/* The address is the first member. */
	if (strncmp(value, "unix:", 5))
		return take_loopback(key, config, value, text);
	if (value[5] != '/' || strlen(value + 5) >= sizeof(config->metrics.path))
		return REFUSE(
			text,
			"invalid socket '%.80s': use unix:/PATH, with a path of at most %zu bytes",
			value, sizeof(config->metrics.path) - 1);
	strcpy(config->metrics.path, value + 5);
	return 0;
}

static int take_ports(const struct config_key *key, struct config *config, const char *value,
		      char text[static CONFIG_TEXT])
{
	uint64_t first, last;
	char copy[32];
	char *dash;

	if (!strcmp(value, "no")) {
		config->target_ports = (struct config_ports){};
		return 0;
	}
	snprintf(copy, sizeof(copy), "%s", value);
	dash = strchr(copy, '-');
	if (dash)
		*dash = 0;
	if (!dash || number_parse(copy, 1024, 65535, &first) < 0 ||
	    number_parse(dash + 1, first, 65535, &last) < 0)
		return REFUSE(text,
			      "invalid port range '%.40s': use FIRST-LAST, from 1024 to 65535",
			      value);
	config->target_ports = (struct config_ports){ (uint16_t)first, (uint16_t)last };
	return 0;
}

static int take_tcp_access(const struct config_key *key, struct config *config, const char *value,
			   char text[static CONFIG_TEXT])
{
	static const char *const names[] = {
		[TCP_ROOT] = "root", [TCP_USER] = "user", [TCP_NONE] = "no"
	};

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(names[i], value)) {
			config->access.tcp = (enum tcp_access)i;
			return 0;
		}
	return REFUSE(text, "invalid value '%.40s': use root, user or no", value);
}

static int take_max_level(const struct config_key *key, struct config *config, const char *value,
			  char text[static CONFIG_TEXT])
{
	return config_take_level(value, &config->access.ceiling.max_level, text);
}

static int take_memory(const struct config_key *key, struct config *config, const char *value,
		       char text[static CONFIG_TEXT])
{
	bool has_memory;
	int r = config_take_bool(value, &has_memory, text);

	if (r == 0)
		config->access.ceiling.no_memory = !has_memory;
	return r;
}

static int take_probe_links(const struct config_key *key, struct config *config, const char *value,
			    char text[static CONFIG_TEXT])
{
	config->perf_event_uprobes = !strcmp(value, "perf-event");
	return config->perf_event_uprobes || !strcmp(value, "multi")
		       ? 0
		       : REFUSE(text, "invalid value '%.40s': use multi or perf-event", value);
}

static int take_max_duration(const struct config_key *key, struct config *config, const char *value,
			     char text[static CONFIG_TEXT])
{
	uint64_t seconds;

	if (number_parse(value, 1, 86400, &seconds) < 0)
		return REFUSE(text, "invalid number of seconds '%.40s': use 1 to 86400", value);
	config->max_duration_ns = seconds * SECOND;
	return 0;
}

static int take_captures(const struct config_key *key, struct config *config, const char *value,
			 char text[static CONFIG_TEXT])
{
	bool is_of_user = FIELD(config, key) == &config->max_captures_per_user;
	unsigned max = is_of_user ? BROKER_MAX_USER_CAPTURES : BROKER_MAX_CAPTURES;
	uint64_t number;

	if (number_parse(value, 1, max, &number) < 0)
		return REFUSE(text, "invalid number of captures '%.40s': use 1 to %u", value, max);
	*(unsigned *)FIELD(config, key) = (unsigned)number;
	return 0;
}

static int take_connections(const struct config_key *key, struct config *config, const char *value,
			    char text[static CONFIG_TEXT])
{
	uint64_t number;

	if (number_parse(value, 1, CONNECTIONS_MAX, &number) < 0)
		return REFUSE(text, "invalid number of connections '%.40s': use 1 to %d", value,
			      CONNECTIONS_MAX);
	*(unsigned *)FIELD(config, key) = (unsigned)number;
	return 0;
}

static int take_targets(const struct config_key *key, struct config *config, const char *value,
			char text[static CONFIG_TEXT])
{
	uint64_t number;

	if (number_parse(value, 1, CONFIG_USER_TARGETS_MAX, &number) < 0)
		return REFUSE(text, "invalid number of processes '%.40s': use 1 to %d", value,
			      CONFIG_USER_TARGETS_MAX);
	config->max_targets_per_user = (unsigned)number;
	return 0;
}

static int take_recorder(const struct config_key *key, struct config *config, const char *value,
			 char text[static CONFIG_TEXT])
{
	uint64_t level = 0;

	if (strcmp(value, "off") && number_parse(value, 1, 3, &level) < 0)
		return REFUSE(text, "invalid recorder level '%.40s': use off, 1, 2 or 3", value);
	config->recorder.level = (unsigned)level;
	return 0;
}

static int take_recorder_last(const struct config_key *key, struct config *config,
			      const char *value, char text[static CONFIG_TEXT])
{
	if (duration_parse(value, &config->recorder.last_ns) < 0 ||
	    config->recorder.last_ns > RECORDER_LAST_MAX_NS)
		return REFUSE(text, "invalid duration '%.40s': use 500ms, 30s or 1m; at most 10m",
			      value);
	return 0;
}

static int take_bytes(const struct config_key *key, struct config *config, const char *value,
		      char text[static CONFIG_TEXT])
{
	uint64_t number;

	if (number_parse(value, 1, RECORDER_BYTES_MAX / MIB, &number) < 0)
		return REFUSE(text, "invalid number of MiB '%.40s': use 1 to %llu", value,
			      RECORDER_BYTES_MAX / MIB);
	*(uint64_t *)FIELD(config, key) = number * MIB;
	return 0;
}

static int take_keep_programs(const struct config_key *key, struct config *config,
			      const char *value, char text[static CONFIG_TEXT])
{
	if (!strcmp(value, "no"))
		config->keep_programs_ns = 0;
	else if (duration_parse(value, &config->keep_programs_ns) < 0 ||
		 config->keep_programs_ns < SECOND)
		return REFUSE(text, "invalid duration '%.40s': use 1s to 1h, or no", value);
	return 0;
}

static int take_interval(const struct config_key *key, struct config *config, const char *value,
			 char text[static CONFIG_TEXT])
{
	if (duration_parse(value, &config->snapshots.interval_ns) < 0 ||
	    config->snapshots.interval_ns < SECOND)
		return REFUSE(text, "invalid duration '%.40s': use 30s, 10m or 1h; at least 1s",
			      value);
	return 0;
}

static int take_keep(const struct config_key *key, struct config *config, const char *value,
		     char text[static CONFIG_TEXT])
{
	uint64_t number;

	if (number_parse(value, 1, SNAPSHOTS_MAX, &number) < 0)
		return REFUSE(text, "invalid number of snapshots '%.40s': use 1 to %d", value,
			      SNAPSHOTS_MAX);
	config->snapshots.keep = (unsigned)number;
	return 0;
}

static int take_snapshots_size(const struct config_key *key, struct config *config,
			       const char *value, char text[static CONFIG_TEXT])
{
	uint64_t number;

	if (number_parse(value, 1, SNAPSHOTS_BYTES_MAX / MIB, &number) < 0)
		return REFUSE(text, "invalid number of MiB '%.40s': use 1 to %llu", value,
			      SNAPSHOTS_BYTES_MAX / MIB);
	config->snapshots.bytes = number * MIB;
	return 0;
}

static int take_percent(const struct config_key *key, struct config *config, const char *value,
			char text[static CONFIG_TEXT])
{
	if (percent_parse(value, FIELD(config, key)) < 0)
		return REFUSE(
			text,
			"invalid percentage '%.40s': use 1, 0.5 or 20%%; above 0 and at most 100",
			value);
	return 0;
}

#define KEY(name_, argument_, take_, field_, reloads_, help_)                                      \
	{                                                                                          \
		.name = name_, .argument = argument_, .help = help_, .take = take_,                \
		.offset = offsetof(struct config, field_),                                         \
		.size = sizeof(((struct config *)0)->field_), .reloads = reloads_                  \
	}

const struct config_key config_keys[] = {
	KEY("socket", "PATH", take_path, socket, false,
	    "Unix socket for tfprofctl (default: /run/tfprofd/tfprofd.sock)"),
	KEY("listen", "HOST:PORT|no", take_loopback, listen, false,
	    "Loopback address at which TensorBoard captures all processes; the abstract socket @PORT is served, too (default: 127.0.0.1:8467)"),
	KEY("target-ports", "FIRST-LAST|no", take_ports, target_ports, false,
	    "Loopback ports at which TensorBoard captures a single process, one port each (default: 8468-8567)"),
	KEY("tls-listen", "HOST:PORT|no", take_address, tls_listen, false,
	    "Address for clients that use TLS, including those on other hosts (default: no)"),
	KEY("tls-cert", "FILE", take_path, tls_certificate, false,
	    "Server certificate, followed by its intermediate certificates (PEM)"),
	KEY("tls-key", "FILE", take_path, tls_key, false,
	    "Private key of the certificate (PEM, not encrypted)"),
	KEY("tls-client-ca", "FILE", take_path, tls_client_ca, false,
	    "Require client certificates signed by one of these (PEM); mandatory unless --tls-listen is a loopback address"),
	KEY("tls-crl", "FILE", take_path, tls_revoked, false,
	    "Revoked client certificates: a list signed by each authority (PEM)"),
	KEY("tls-users", "FILE", take_path, tls_users, false,
	    "Which user a client certificate counts as, a line each: USER SUBJECT; others are refused"),
	KEY("tcp-access", "root|user|no", take_tcp_access, access.tcp, true,
	    "What clients on loopback TCP may profile: as on the Unix socket, only processes of their own user, nothing (default: root)"),
	KEY("max-level", "1|2|3", take_max_level, access.ceiling.max_level, true,
	    "Highest level of captures of everyone but root (default: 3)"),
	KEY("max-overhead", "PERCENT", take_percent, access.ceiling.max_overhead, true,
	    "Likewise: share of the processes' CPU time that the probes of a capture may cost; above it ops are sampled, and other kinds of probes detached (default: 5; 100: no limit)"),
	KEY("memory", NULL, take_memory, access.ceiling.no_memory, true,
	    "Likewise: whether allocations may be captured (default: yes)"),
	KEY("metrics-listen", "HOST:PORT|unix:PATH|no", take_metrics, metrics, false,
	    "Address at which /metrics (Prometheus) and /healthz are served; loopback only (default: no)"),
	KEY("metrics-hosts", "NAME,...", take_text, metrics_hosts, true,
	    "More names of this host that requests for /metrics may use (default: none)"),
	KEY("state-dir", "DIR", take_path, state, false,
	    "Directory for files that are kept between runs (default: /var/lib/tfprofd)"),
	KEY("probe-links", "multi|perf-event", take_probe_links, perf_event_uprobes, false,
	    "How probes are attached (default: multi where the kernel supports it; perf-event is for older kernels)"),
	KEY("max-duration", "SECONDS", take_max_duration, max_duration_ns, true,
	    "Longest window that a client can request (default: 300)"),
	KEY("max-captures", "N", take_captures, max_captures, true,
	    "Concurrent captures (default: 16)"),
	KEY("max-captures-per-user", "N", take_captures, max_captures_per_user, true,
	    "Concurrent captures of one user other than root (default: 6)"),
	KEY("max-connections", "N", take_connections, max_connections, false,
	    "Connections of all clients; an eighth is reserved for root (default: 256)"),
	KEY("max-connections-per-user", "N", take_connections, max_connections_per_user, false,
	    "Connections of one user other than root (default: 64)"),
	KEY("max-targets-per-user", "N", take_targets, max_targets_per_user, false,
	    "Processes of one user other than root that are targets (default: 128)"),
	KEY("ring-memory-per-user", "MIB", take_bytes, ring_bytes_per_user, false,
	    "Maximal memory of the ring buffers of one user other than root, in MiB (default: 768)"),
	KEY("keep-programs", "TIME|no", take_keep_programs, keep_programs_ns, false,
	    "How long after a capture the BPF programs of the next one stay loaded, which then attaches sooner (default: 60s)"),
	KEY("recorder", "off|1|2|3", take_recorder, recorder.level, false,
	    "Continuously record every process at this level, for tfprofctl snapshot (default: off)"),
	KEY("recorder-last", "TIME", take_recorder_last, recorder.last_ns, false,
	    "Longest time that the recorder keeps (default: 30s)"),
	KEY("recorder-memory", "MIB", take_bytes, recorder.bytes, false,
	    "Maximal memory of the recorder, in MiB (default: 64)"),
	KEY("recorder-overhead", "PERCENT", take_percent, recorder.max_overhead, false,
	    "Share of the processes' CPU time that the recorder's probes may cost; above it the recorder disables some kinds of probes (default: 1)"),
	KEY("recorder-clients", NULL, take_bool, recorder_clients, false,
	    "Let clients start the recorder, which outlives their connection (default: no)"),
	KEY("snapshot-directory", "DIR", take_path, snapshots.directory, false,
	    "Directory for the snapshots of triggers, which are sections [trigger NAME] of the file (default: none)"),
	KEY("snapshot-interval", "TIME", take_interval, snapshots.interval_ns, false,
	    "Shortest time between two snapshots of one trigger (default: 60s)"),
	KEY("snapshots-keep", "N", take_keep, snapshots.keep, false,
	    "Snapshots that are kept there; the oldest is removed (default: 20)"),
	KEY("snapshots-size", "MIB", take_snapshots_size, snapshots.bytes, false,
	    "Likewise: their total size, in MiB (default: 1024)"),
	KEY("captures-user", "USER", take_text, captures_user, true,
	    "User as whom the recorder and the watch of starting processes capture: root captures every process (default: root)"),
	KEY("lifecycle", NULL, take_bool, lifecycle, false,
	    "Watch processes from their start to their first request, for tfprofctl lifecycle (default: no)"),
	KEY("verbose", NULL, take_bool, verbose, true, "Log more (default: no)"),
};
const size_t n_config_keys = ARRAY_SIZE(config_keys);
_Static_assert(ARRAY_SIZE(config_keys) <= CONFIG_KEYS_MAX, "room for every key");

void config_set_defaults(struct config *config)
{
	*config = (struct config){
		.socket = "/run/tfprofd/tfprofd.sock",
		.state = "/var/lib/tfprofd",
		.captures_user = "root",
		.listen = { "127.0.0.1", 8467 },
		.target_ports = { 8468, 8567 },
		.access.ceiling.max_overhead = 5,
		.max_duration_ns = 300 * SECOND,
		.max_captures = BROKER_MAX_CAPTURES,
		.max_captures_per_user = 6,
		.max_connections = 256,
		.max_connections_per_user = 64,
		.max_targets_per_user = 128,
		.ring_bytes_per_user = 768 * MIB,
		.keep_programs_ns = 60 * SECOND,
		.recorder = { .last_ns = 30 * SECOND, .bytes = 64 * MIB, .max_overhead = 1 },
		.snapshots = { .interval_ns = 60 * SECOND, .keep = 20, .bytes = 1024 * MIB },
	};
}

int config_key_find(const char *name)
{
	for (size_t i = 0; i < n_config_keys; i++)
		if (!strcmp(config_keys[i].name, name))
			return (int)i;
	return -ENOENT;
}

int config_refuse_key(const char *key, const char *const *names, size_t n_names,
		      char text[static CONFIG_TEXT])
{
	const char *nearest = nearest_name(key, names, n_names);

	if (nearest)
		return REFUSE(text, "unknown key '%.40s' (did you mean '%s'?)", key, nearest);
	return REFUSE(text, "unknown key '%.40s'", key);
}

int config_section_key(const char *key, const void *rows, size_t n_rows, size_t row_size,
		       unsigned *seen, char text[static CONFIG_TEXT])
{
	const char *names[32];
	size_t i = 0;

	for (size_t k = 0; k < n_rows; k++)
		memcpy(&names[k], (const char *)rows + k * row_size, sizeof(names[k]));
	while (i < n_rows && strcmp(names[i], key))
		i++;
	if (i == n_rows)
		return config_refuse_key(key, names, n_rows, text);
	if (*seen & 1u << i)
		return REFUSE(text, "'%s' is given twice", key);
	*seen |= 1u << i;
	return (int)i;
}

int config_check(const struct config *config, char text[static CONFIG_TEXT])
{
	bool has_pair = *config->tls_certificate && *config->tls_key;

	if (config->tls_listen.port && !has_pair)
		return REFUSE(text, "tls-listen requires tls-cert and tls-key");
	if (!config->tls_listen.port &&
	    (*config->tls_certificate || *config->tls_key || *config->tls_client_ca))
		return REFUSE(text, "tls-cert, tls-key and tls-client-ca require tls-listen");
	if (!*config->tls_client_ca != !*config->tls_users)
		return REFUSE(text, "tls-client-ca and tls-users must be given together: %s",
			      *config->tls_users
				      ? "tls-users is for certificates of these authorities"
				      : "tls-users is the file of the certificates' users");
	if (*config->tls_revoked && !*config->tls_client_ca)
		return REFUSE(text, "tls-crl requires tls-client-ca");
	if (config->tls_listen.port && !*config->tls_client_ca &&
	    !is_loopback(config->tls_listen.host))
		return REFUSE(
			text,
			"tls-listen on an address other than loopback requires tls-client-ca");
	return 0;
}
