/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A front that was taken over: what it sends the broker on both lines, with what happens meanwhile
 * to clients, processes and files, and what the prover answers. The broker's parts are real, but
 * for the host around them (broker_host.h). Besides memory errors, these are found: descriptors
 * that stay open, answers that are malformed, and probes that a client may not have.
 */
#include "tests/fuzz/broker_front.h"

#define WAITING_MS 100

static void take_pair(int *ret_front, int *ret_broker)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	*ret_front = pair[0];
	*ret_broker = pair[1];
	fcntl(pair[0], F_SETFL, O_NONBLOCK);
}

static void new_broker(void)
{
	struct bpf_facts bpf = {};
	struct broker *b = calloc(1, sizeof(*b));

	if (!b)
		abort();
	pthread_mutex_init(&b->lock, NULL);
	b->listeners = listeners;
	b->n_listeners = LISTENERS;
	b->reload_files = options.reload;
	b->mode = perf_events ? ATTACH_PERF_EVENT : ATTACH_MULTI;
	take_pair(&f.quick, &b->requests);
	take_pair(&f.captures, &options.captures);
	take_pair(&f.events, &b->events);
	take_pair(&f.notes, &b->notes);
	take_pair(&f.prover, &options.prover);
	fcntl(b->events, F_SETFL, O_NONBLOCK);
	if (start_clients(b, &options) < 0 || audit_new(state, &b->audit) < 0 ||
	    files_new(options.prover, state, &b->files) < 0 ||
	    start_captures(b, &options, &bpf) < 0 || watch_new(has_threads, &b->watch) < 0 ||
	    births_new(&b->births) < 0)
		abort();
	b->captures->first_id = 0;
	f.broker = b;
	f.first_file = 0;
}

static void close_job(unsigned number)
{
	struct job *job = &f.jobs[number];

	for (unsigned i = 0; i < job->n_fds; i++)
		close(job->fds[i]);
	*job = f.jobs[--f.n_jobs];
}

static void end_broker(void)
{
	struct broker *b = f.broker;

	while (f.n_jobs)
		close_job(0);
	capture_line_free(b->captures);
	b->captures = NULL;
	clients_free(b->clients);
	audit_free(b->audit);
	files_free(b->files);
	watch_free(b->watch);
	births_free(b->births);
	close(b->requests);
	close(b->events);
	close(b->notes);
	close(f.quick);
	close(f.captures);
	close(f.events);
	close(f.notes);
	close(f.prover);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

/* What waits for the front and for the supervisor. */
static void read_events(void)
{
	int fds[BROKER_MAX_FDS];
	struct broker_event event;
	unsigned n;
	char byte;

	while (channel_receive(f.events, &event, sizeof(event), fds, BROKER_MAX_FDS, &n) == 0)
		while (n)
			close(fds[--n]);
	while (recv(f.notes, &byte, 1, 0) > 0)
		;
}

static void take_jobs(void)
{
	unsigned n_packs = 0;
	struct job w;

	while (packs[n_packs])
		n_packs++;
	while (channel_receive(f.prover, &w.request, sizeof(w.request), w.fds, PROVER_FDS_MAX,
			       &w.n_fds) == 0) {
		if (f.n_jobs == PLANNER_AT_ONCE)
			violation("too many files are read at once");
		if (w.n_fds != (unsigned)__builtin_popcount(w.request.fds) || w.n_fds < PROVER_FDS)
			violation("a request to the prover without its descriptors");
		if (w.request.packs >> n_packs)
			violation("a set of packs that do not exist");
		fcntl(w.fds[PROVER_LINE], F_SETFL, O_NONBLOCK);
		f.jobs[f.n_jobs++] = w;
	}
}

/* A round of the broker's loop, and one of its line for captures. */
static void run_round(bool is_due)
{
	struct broker *b = f.broker;
	struct capture_line *l = b->captures;

	update_clients(b, is_due);
	audit_read_notes(b->audit, b->events);
	audit_tick(b->audit, loop_now());
	if (is_due)
		capture_line_check(l);
	if (files_work(b->files) < 0)
		violation("the broker ends");
	send_pending(b);
	captures_forget_ended(l->captures);
	l->is_idle = captures_are_none(l->captures);
	serve_reports(l);
	read_events();
	take_jobs();
}

/* Small numbers mean one that exists. */
static uint32_t to_id(uint32_t type, uint32_t number)
{
	if (type == BROKER_PLAN || type == BROKER_CLOSE || type == BROKER_FUNCTIONS)
		return number + f.first_file;
	if (type > BROKER_CAPTURE || number > UINT8_MAX)
		return number;
	return number < f.n_peers ? f.peers[number].id : BROKER_DAEMON;
}

static uint32_t to_pid(uint32_t number)
{
	return number < PROCESSES ? (uint32_t)fake.processes[number].pid : number | FIRST_PID;
}

enum { MESSAGE_WIDE = 1, MESSAGE_OTHER_LINE = 2, MESSAGE_OTHER_SIZE = 4, MESSAGE_FDS = 8 };

/* -EPIPE: the broker ends, as it should. */
static int send_message(struct fuzz_input *in)
{
	const uint8_t type = (uint8_t)fuzz_take(in, 1), flags = (uint8_t)fuzz_take(in, 1);
	const unsigned wide = flags & MESSAGE_WIDE ? 4 : 1;
	struct broker_message m = { .type = type };
	bool quick = broker_line_of(type) == BROKER_LINE_QUICK;
	size_t size = sizeof(m), n;
	int fds[2], line, r;
	unsigned n_fds = 0;

	m.id = to_id(type, (uint32_t)fuzz_take(in, wide));
	m.pid = to_pid((uint32_t)fuzz_take(in, wide));
	m.index = (uint32_t)fuzz_take(in, wide);
	m.file = f.first_file + (uint32_t)fuzz_take(in, wide);
	m.kinds = (uint32_t)fuzz_take(in, wide);
	m.count = (uint32_t)fuzz_take(in, wide);
	m.kind = (uint32_t)fuzz_take(in, wide);
	m.start = fuzz_take(in, 2 * wide);
	m.end = fuzz_take(in, 2 * wide);
	n = fuzz_take(in, 1);
	n = MIN(n, in->size);
	memset(m.text, '%', sizeof(m.text));
	memcpy(&m.sites, in->data, n);
	in->data += n;
	in->size -= n;
	if (flags & MESSAGE_OTHER_LINE)
		quick = !quick;
	if (flags & MESSAGE_OTHER_SIZE)
		size = fuzz_take(in, 2) % sizeof(m);
	for (n = flags / MESSAGE_FDS % 4; n_fds < 2 && n; n--) {
		unsigned number = (unsigned)fuzz_take(in, 1);

		fds[n_fds] = number < f.n_peers ? f.peers[number].connection : f.quick;
		n_fds += fds[n_fds] >= 0;
	}
	line = quick ? f.quick : f.captures;
	listeners_changed |= type == BROKER_UNLISTEN || type == BROKER_LISTEN;
	if (size == 0 || channel_send(line, &m, size, fds, n_fds) < 0)
		return -EPIPE;
	r = quick ? serve_request(f.broker) : serve_capture_request(f.broker->captures);
	if ((r < 0) != (size < sizeof(m)))
		violation("the broker ends, or answers what is no message");
	if (r < 0)
		return -EPIPE;
	check_answer(&m, line);
	return 0;
}

static void connect_client(struct fuzz_input *in)
{
	const struct linger reset = { .l_onoff = 1 };
	const unsigned listener = (unsigned)fuzz_take(in, 1) % LISTENERS;
	struct sockaddr_storage address;
	socklen_t size = sizeof(address);
	int fd;

	if (f.n_peers == PEERS ||
	    getsockname(listeners[listener].fd, (struct sockaddr *)&address, &size) < 0)
		return;
	fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	/* No connection waits for its end after that of the input. */
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, size) < 0) {
		safe_close(fd);
		return;
	}
	f.peers[f.n_peers++] =
		(struct peer){ .fd = fd, .connection = -1, .listener = listener, .id = UINT32_MAX };
}

static void close_client(struct fuzz_input *in)
{
	const unsigned number = (unsigned)fuzz_take(in, 1), how = (unsigned)fuzz_take(in, 1) % 3;
	struct peer *p = f.n_peers ? &f.peers[number % f.n_peers] : NULL;

	if (!p)
		return;
	if (how == 0) {
		p->connection = safe_close(p->connection);
	} else if (how == 1 && p->fd >= 0) {
		shutdown(p->fd, SHUT_WR);
	} else {
		p->fd = safe_close(p->fd);
		p->is_gone = true;
	}
}

static struct plan_site take_site(struct fuzz_input *in, const struct pack_set *set)
{
	const unsigned how = (unsigned)fuzz_take(in, 1);
	struct plan_site site = { .spec = (unsigned)fuzz_take(in, 1) % set->n_rows,
				  .symbol = (char *)"f",
				  .source = (enum symbol_source)(how >> 4 & 7),
				  .offset = CODE_AT + fuzz_take(in, 1) * 16,
				  .slot_known = how >> 3 & 1 };

	site.site.class = (enum site_class)(how & 3);
	site.site.may_repeat = how >> 2 & 1;
	if (how >> 7) {
		site.semaphore = NOTE_COUNTER;
		site.note = NOTE_AT;
		site.site.stack_offset = (uint32_t)fuzz_take(in, 1);
	}
	return site;
}

static void write_proof(struct fuzz_input *in, const struct job *w)
{
	struct plan_site sites[PLANNED_SITES_MAX];
	struct plan plan = { .packs = pack_set_get(w->request.packs), .sites = sites };
	unsigned n = (unsigned)fuzz_take(in, 1) % (PLANNED_SITES_MAX + 1);

	if (!plan.packs)
		return;
	snprintf(plan.version, sizeof(plan.version), "2.%u", (unsigned)fuzz_take(in, 1));
	while (plan.n_sites < n)
		sites[plan.n_sites++] = take_site(in, plan.packs);
	if (proof_write(w->fds[PROVER_PROOF], &plan) < 0)
		abort();
	/* A prover that was taken over. */
	for (n = (unsigned)fuzz_take(in, 1) % 4; n; n--) {
		const off_t at = (off_t)fuzz_take(in, 2);
		const uint8_t byte = (uint8_t)fuzz_take(in, 1);

		if (pwrite(w->fds[PROVER_PROOF], &byte, 1, at) < 0)
			abort();
	}
}

static void answer_as_prover(struct fuzz_input *in)
{
	const unsigned number = (unsigned)fuzz_take(in, 1), how = (unsigned)fuzz_take(in, 1);
	struct prover_answer answer = { .type = PROVER_DONE, .known = how >> 2 & 1 };
	struct prover_debug debug;
	struct job *w = f.n_jobs ? &f.jobs[number % f.n_jobs] : NULL;
	int fd = -1, line, r = -EPIPE;
	unsigned n = 0;

	if (!w)
		return;
	memset(answer.text, '%', sizeof(answer.text));
	line = w->fds[PROVER_LINE];
	if (how % 4 == 0)
		write_proof(in, w);
	if (how % 4 == 1)
		answer.result = -(int32_t)fuzz_take(in, 1);
	if (how % 4 == 2)
		answer.type = PROVER_DEBUG;
	if (how & 8 && w->request.fds >> PROVER_NEW_STORED & 1 &&
	    write(w->fds[w->n_fds - 1], "x", 1) < 0)
		abort();
	answer.stored = how & 16 ? -ENOSPC : 0;
	if (how % 4 != 3)
		channel_send(line, &answer, how & 32 ? 9 : sizeof(answer), &line, how >> 6 & 1);
	if (files_work(f.broker->files) < 0)
		violation("the broker ends");
	if (how % 4 == 2)
		r = channel_receive(line, &debug, sizeof(debug), &fd, 1, &n);
	if (r == 0 && n)
		close(fd);
	if (r < 0)
		close_job(number % f.n_jobs);
}

static void change_process(struct fuzz_input *in)
{
	const unsigned number = (unsigned)fuzz_take(in, 1) % PROCESSES;
	const unsigned what = (unsigned)fuzz_take(in, 1) % 8;
	struct process *p = &fake.processes[number];

	/* The user of the first one is that of all connections. */
	if (what == 0 && number)
		p->owner = p->owner == getuid() ? 0 : getuid();
	else if (what == 1 && number)
		p->owner = OTHER_USER;
	else if (what == 2)
		p->may_ptrace = !p->may_ptrace;
	else if (what == 3)
		p->is_contained = !p->is_contained;
	else if (what == 4 && number && !p->has_ended)
		process_end(p);
	else if (what == 5 && number)
		process_replace(p);
	else if (what == 6)
		p->changes_user = !p->changes_user;
	else if (what == 7)
		p->has_seccomp = !p->has_seccomp;
}

static void report_event(struct fuzz_input *in)
{
	static const char *const names[] = { "/lib/libtensorflow_framework.so.2", "/server",
					     "libonnxruntime.so", "" };
	const unsigned what = (unsigned)fuzz_take(in, 1);
	struct sideband_event event = { .kind = (enum sideband_kind)(what & 3),
					.pid = (pid_t)to_pid((uint32_t)fuzz_take(in, 1)),
					.parent = (pid_t)to_pid((uint32_t)fuzz_take(in, 1)),
					.time = loop_now(),
					.name = names[what >> 2 & 3],
					.size = (uint64_t)(what >> 4) << 20 };

	if (what == UINT8_MAX)
		watch_lost(f.broker->watch);
	else
		on_sideband(&event, f.broker);
}

static void send_note(struct fuzz_input *in)
{
	struct audit_note note;
	size_t n;

	memset(&note, '\n', sizeof(note));
	note.verdict = (uint32_t)fuzz_take(in, 1);
	note.action = (uint32_t)fuzz_take(in, 1);
	note.client = to_id(BROKER_MAY, (uint32_t)fuzz_take(in, 1));
	note.pid = to_pid((uint32_t)fuzz_take(in, 1));
	n = fuzz_take(in, 1);
	n = MIN(n, in->size);
	memcpy(note.reason, in->data, n);
	memcpy(note.subject, in->data, n);
	in->data += n;
	in->size -= n;
	if (send(f.events, &note, n == 1 ? 1 : sizeof(note), MSG_NOSIGNAL) < 0 && errno != EAGAIN)
		abort();
}

/* The clients whose certificates belong to others now. */
static void check_certificates(void)
{
	const struct certificates now = { fake.certificates_moved };
	uid_t uid;

	for (unsigned i = 0; i < f.n_peers; i++) {
		struct peer *p = &f.peers[i];

		if (*p->name &&
		    (certificates_find(&now, p->name, &uid) < 0 || uid != p->caller.uid))
			p->is_gone = true;
	}
}

static void change_rules(struct fuzz_input *in)
{
	const unsigned what = (unsigned)fuzz_take(in, 1), rule = (unsigned)fuzz_take(in, 1);
	const struct signalfd_siginfo hangup = { .ssi_signo = SIGHUP };
	struct broker_rules next = { .access = rules, .triggers = triggers };
	struct authority new = rules;

	new.ceiling.max_level = what & 3;
	new.ceiling.no_memory = what >> 2 & 1;
	new.tcp = (enum tcp_access)(what >> 3 & 3);
	new.daemon_user = what >> 5 & 1 ? 0 : getuid();
	new.n_rules = rule & 1;
	new.rules[0] = (struct access_rule){ .name = "a",
					     .user_ids = { .ids = { getuid() }, .n = 1 },
					     .denies = rule >> 1 & 1,
					     .target_users = "*",
					     .target_ids.any = rule >> 2 & 1,
					     .ceiling.max_level = rule >> 3 & 3 };
	if (rule >> 5 & 1)
		strcpy(new.rules[0].executables, "/serv* *");
	fake.certificates_moved = what >> 6 & 1;
	next.access = new;
	if (rule >> 6 & 1)
		strcpy(next.triggers.names[0], rule >> 7 ? "/" : "c");
	if (send(f.notes, &next, sizeof(next) - (what >> 7), MSG_NOSIGNAL) < 0 ||
	    write(signals[1], &hangup, sizeof(hangup)) < 0)
		abort();
	on_signal(f.broker, signals[0]);
	check_certificates();
}

static void change_kernel(struct fuzz_input *in)
{
	static const int errors[] = {
		0, -ENOMEM, -EPERM, -EINVAL, -E2BIG, -ENOENT, -EBUSY, -EMFILE
	};
	const unsigned what = (unsigned)fuzz_take(in, 2);

	fake.load = errors[what & 7];
	fake.attach = errors[what >> 3 & 7];
	fake.add = errors[what >> 6 & 7];
	fake.lacks_btf = what >> 9 & 1;
	fake.refused_targets = (unsigned)fuzz_take(in, 2);
	fake.refused_kinds = (unsigned)fuzz_take(in, 2);
	fake.accepted_kinds = ~(unsigned)fuzz_take(in, 2);
}

static int take_step(struct fuzz_input *in)
{
	bool is_due = false;
	int r = 0;

	switch (fuzz_take(in, 1)) {
	case STEP_CONNECT:
		connect_client(in);
		break;
	case STEP_CLOSE:
		close_client(in);
		break;
	case STEP_PROVER:
		answer_as_prover(in);
		break;
	case STEP_PROCESS:
		change_process(in);
		break;
	case STEP_SIDEBAND:
		report_event(in);
		break;
	case STEP_NOTE:
		send_note(in);
		break;
	case STEP_TIME:
		fake.now_ns += fuzz_take(in, 2) * 10000000;
		is_due = true;
		break;
	case STEP_RULES:
		change_rules(in);
		break;
	case STEP_BROKER:
		end_broker();
		new_broker();
		check_certificates();
		break;
	case STEP_KERNEL:
		change_kernel(in);
		break;
	default:
		r = send_message(in);
	}
	if (r == 0)
		run_round(is_due);
	return r;
}

/* What is open at the end must have been open before. */
static void check_descriptors(bool begins)
{
	static bool were_open[DESCRIPTORS];
	struct pollfd p[DESCRIPTORS];

	for (int i = 0; i < DESCRIPTORS; i++)
		p[i] = (struct pollfd){ .fd = i };
	if (poll(p, DESCRIPTORS, 0) < 0)
		abort();
	for (unsigned i = 0; i < DESCRIPTORS; i++)
		if (begins)
			were_open[i] = !(p[i].revents & POLLNVAL);
		else if (!were_open[i] && !(p[i].revents & POLLNVAL))
			violation("a descriptor stays open");
}

static void set_options(unsigned how)
{
	static const struct authority none;

	rules = none;
	rules.daemon_user = how >> 1 & 1 ? 0 : getuid();
	perf_events = how & 1;
	options = (struct broker_options){
		.clients = clients,
		.authority = &rules,
		.connections = { .all = 32, .per_user = how >> 2 & 1 ? 4 : 32 },
		.captures_on_its_own = how >> 3 & 1,
		.keep_ns = 1000000000,
		.user_ring_bytes = how >> 4 & 1 ? (uint64_t)64 << 20 : UINT64_MAX,
		.certificates = "certificates",
		.state = state,
		.snapshots = { .directory = snapshots,
			       .triggers = triggers,
			       .interval_ns = 1000000000,
			       .keep = 2,
			       .bytes = 100 },
		.reload = { "/dev/null", "", "/", "", "" },
	};
}

/* The kernel may add a connection to its listener's queue after connect() has returned. */
static void forget_waiting(unsigned listener)
{
	struct pollfd queue = { .fd = listeners[listener].fd, .events = POLLIN };

	for (unsigned i = 0; i < f.n_peers; i++)
		if (f.peers[i].state == PEER_WAITS && f.peers[i].listener == listener &&
		    poll(&queue, 1, WAITING_MS) > 0)
			safe_close(accept(queue.fd, NULL, NULL));
}

static void end_peers(void)
{
	for (unsigned i = 0; i < f.n_peers; i++) {
		safe_close(f.peers[i].fd);
		safe_close(f.peers[i].connection);
	}
	for (unsigned i = 0; i < LISTENERS; i++)
		forget_waiting(i);
	if (listeners_changed)
		new_listeners();
}

static void clear_directory(int fd)
{
	DIR *directory = fd < 0 ? NULL : directory_list(fd);
	struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		unlinkat(fd, entry->d_name, 0);
	if (directory)
		closedir(directory);
}

/* Nothing that an input left is found by the next one. */
static void clear_state(void)
{
	_cleanup_close_ int plans = openat(state, "plans", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	static const uint8_t zeros[CLIENTS_BYTES];

	clear_directory(plans);
	clear_directory(snapshots);
	unlinkat(state, AUDIT_FILE, 0);
	if (pwrite(clients, zeros, sizeof(zeros), 0) != sizeof(zeros))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { .data = data, .size = size };
	const unsigned how = (unsigned)fuzz_take(&in, 1);
	const size_t n_changes = MIN((size_t)(how >> 5) * 3, in.size);

	f = (struct front){};
	set_options(how);
	check_descriptors(true);
	host_reset(in.data, n_changes);
	in.data += n_changes;
	in.size -= n_changes;
	new_broker();
	while (in.size && take_step(&in) == 0)
		;
	end_broker();
	end_peers();
	fake.files[MALFORMED_FILE] = safe_close(fake.files[MALFORMED_FILE]);
	clear_state();
	check_descriptors(false);
	return 0;
}
