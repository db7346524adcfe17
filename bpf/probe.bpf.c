/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The entry probe of a target's functions: one program for all, so that a file of a target has one
 * link, which is attached and detached at once. The attach cookie identifies the probe, and
 * specifies what it reads.
 */
#include "bpf/argument.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile __u32 cpus_per_ring = 1, n_rings = 1;

/* Objects whose name was sent in this capture, keyed by address and target. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, __u64);
	__type(value, __u8);
} objects SEC(".maps");

/* Not mapped by anybody. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RECORD_PATHS);
	__type(key, __u32);
	__type(value, struct record_path);
} paths SEC(".maps");

/* std::string_view. */
struct string_view {
	__u64 size;
	__u64 bytes;
};

static __always_inline __u64 read_word(__u64 address, __u32 cpu)
{
	__u64 word = 0;

	if (bpf_probe_read_user(&word, sizeof(word), (void *)address))
		COUNT(cpu, read_failed);
	return word;
}

/* Of enum path_read. */
struct values {
	__u64 words[PATH_READS];
};

/* What a probe reads by a path. Apart from the others, which do not pay for it. */
static __noinline int read_by_path(const struct pt_regs *regs, __u64 cookie, __u32 cpu,
				   struct values *ret)
{
	__u32 number = COOKIE_OFFSET(cookie);
	const struct record_path *path = bpf_map_lookup_elem(&paths, &number);

	if (!path)
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < PATH_READS; i++) {
		__u64 word = argument(regs, COOKIE_REGISTER(cookie, i));

#pragma clang loop unroll(disable)
		for (int k = 0; k < RECORD_STEPS && k < path->n_steps[i]; k++)
			word = read_word(word + path->steps[i][k], cpu);
		ret->words[i] = word;
	}
	return 0;
}

static __always_inline void fill_probe(struct record_probe *r, const struct pt_regs *regs,
				       __u64 cookie, __u64 now, __u64 size, __u64 value, __u64 tag)
{
	record_head(&r->head, now, (__u32)bpf_get_current_pid_tgid(), RECORD_PROBE, size);
	r->head.site = COOKIE_SITE(cookie);
	r->head.target = COOKIE_TARGET(cookie);
	r->stack = (__u32)(regs->sp + COOKIE_STACK8(cookie) * 8);
	r->tag = (__u32)tag;
	r->value = value;
}

static __always_inline int send_probe(const struct pt_regs *regs, __u64 cookie, __u64 now,
				      __u32 cpu)
{
	struct record_probe *r = record_reserve(cpu, sizeof(*r));

	if (!r)
		return 0;
	fill_probe(r, regs, cookie, now, sizeof(*r),
		   argument(regs, COOKIE_VALUE(cookie)) + COOKIE_OFFSET(cookie),
		   argument(regs, COOKIE_TAG(cookie)));
	record_submit(r);
	return 0;
}

/* The registers, or what a path leads to from them. */
static __always_inline struct values read_values(const struct pt_regs *regs, __u64 cookie,
						 __u32 cpu)
{
	struct values v = {};

	if (cookie & COOKIE_PATH) {
		read_by_path(regs, cookie, cpu, &v);
		return v;
	}
	v.words[PATH_VALUE] = argument(regs, COOKIE_VALUE(cookie));
	v.words[PATH_TAG] = argument(regs, COOKIE_TAG(cookie));
	v.words[PATH_VALUE2] = argument(regs, COOKIE_VALUE2(cookie));
	if (cookie & COOKIE_DEREF)
		v.words[PATH_VALUE] = read_word(v.words[PATH_VALUE] + COOKIE_OFFSET(cookie), cpu);
	else if (COOKIE_ACTION(cookie) == ACTION_TEXT_NUL)
		v.words[PATH_VALUE] += COOKIE_OFFSET(cookie);
	if (cookie & COOKIE_DEREF_AGAIN)
		v.words[PATH_VALUE] = read_word(v.words[PATH_VALUE], cpu);
	if (cookie & COOKIE_DEREF2)
		v.words[PATH_VALUE2] =
			read_word(v.words[PATH_VALUE2] + COOKIE_OFFSET2(cookie), cpu);
	return v;
}

/* The same with values that are read through pointers. */
static __always_inline int send_values(const struct pt_regs *regs, const struct values *v,
				       __u64 cookie, __u64 now, __u32 cpu)
{
	struct record_probe2 *r = record_reserve(cpu, sizeof(*r));

	if (!r)
		return 0;
	fill_probe(&r->probe, regs, cookie, now, sizeof(*r), v->words[PATH_VALUE],
		   v->words[PATH_TAG]);
	r->value2 = v->words[PATH_VALUE2];
	record_submit(r);
	return 0;
}

/* Reads a NUL-terminated string into a buffer. Returns its size; of one too large for the buffer
 * only that it is larger. */
static __always_inline __u32 read_string(char *text, __u32 room, __u64 address, __u32 cpu)
{
	long n = bpf_probe_read_user_str(text, room, (void *)address);

	if (n <= 0) {
		COUNT(cpu, read_failed);
		return 0;
	}
	if (n < (long)room)
		return n - 1;
	/* The helper has put its own NUL where there may be one more byte. */
	if (bpf_probe_read_user(&text[room - 1], 1, (void *)(address + room - 1)))
		return room - 1;
	return text[room - 1] ? room + 1 : room - 1;
}

/* The same with a string, whose size the target claims; no more of the target's memory is read than
 * that size, or than a record holds. */
static __always_inline int send_text(const struct pt_regs *regs, const struct values *v,
				     __u64 cookie, __u64 now, __u32 cpu)
{
	struct record_text *r = record_reserve(cpu, sizeof(*r));
	__u64 claimed = v->words[PATH_VALUE2];
	__u32 size;

	if (!r)
		return 0;
	fill_probe(&r->probe, regs, cookie, now, sizeof(*r), v->words[PATH_VALUE],
		   v->words[PATH_TAG]);
	r->probe.head.kind = RECORD_TEXT;
	r->reserved = 0;
	__builtin_memset(r->text, 0, sizeof(r->text));
	if (COOKIE_ACTION(cookie) == ACTION_TEXT_NUL) {
		r->size = read_string(r->text, sizeof(r->text), r->probe.value, cpu);
		record_submit(r);
		return 0;
	}
	size = claimed < RECORD_TEXT_SIZE ? claimed : RECORD_TEXT_SIZE;
	if (COOKIE_ACTION(cookie) == ACTION_TEXT_END)
		r->probe.value += claimed - size;
	r->size = claimed < 0xffffffff ? claimed : 0xffffffff;
	if (bpf_probe_read_user(r->text, size, (void *)r->probe.value)) {
		r->size = 0;
		COUNT(cpu, read_failed);
	}
	record_submit(r);
	return 0;
}

struct object_search {
	__u64 object;
	struct record_object *record;
};

/* Examines one position of an object. */
static long look_for_view(__u32 i, struct object_search *search)
{
	struct record_object *r = search->record;
	struct string_view view = {};
	struct record_candidate *c;
	__u32 n = r->n_candidates, size;

	if (n >= RECORD_CANDIDATES ||
	    bpf_probe_read_user(&view, sizeof(view), (void *)(search->object + i * 8)))
		return 1;
	if (view.size == 0 || view.size > RECORD_NAME_SIZE || view.bytes < 4096 || view.bytes >> 47)
		return 0;
	c = &r->candidates[n];
	size = view.size < RECORD_CANDIDATE_SIZE ? view.size : RECORD_CANDIDATE_SIZE;
	__builtin_memset(c->bytes, 0, sizeof(c->bytes));
	if (bpf_probe_read_user(c->bytes, size, (void *)view.bytes))
		return 0;
	c->offset = i * 8;
	c->size = view.size;
	r->n_candidates = n + 1;
	return 0;
}

/* Sends every string view that an object seems to contain, so that user space can find its name and
 * its type. */
static __always_inline int send_object(__u64 object, __u64 cookie, __u64 now, __u32 cpu)
{
	struct object_search search = { .object = object,
					.record = record_reserve(cpu, sizeof(*search.record)) };
	struct record_object *r = search.record;

	if (!r)
		return -1;
	record_head(&r->head, now, (__u32)bpf_get_current_pid_tgid(), RECORD_OBJECT, sizeof(*r));
	r->head.site = COOKIE_SITE(cookie);
	r->head.target = COOKIE_TARGET(cookie);
	r->object = object;
	r->reserved = 0;
	r->n_candidates = 0;
	bpf_loop(RECORD_OBJECT_BYTES / 8 - 1, look_for_view, &search, 0);
	record_submit(r);
	return 0;
}

/* A string of a known size. Returns how many bytes were read, or 0. */
static __always_inline __u32 read_view(char *text, __u32 room, __u64 address, __u8 form)
{
	struct string_view view = {};
	__u32 size;

	bpf_probe_read_user(&view, sizeof(view), (void *)address);
	if (form != NAME_VIEW)
		view = (struct string_view){ .size = view.bytes, .bytes = view.size };
	size = view.size < room ? view.size : room;
	return bpf_probe_read_user(text, size, (void *)view.bytes) ? 0 : view.size;
}

/* The number of an object whose name is an empty string. */
static __always_inline __u32 read_number(char *text, __u64 object, __u64 name)
{
	__u64 size;

	if (bpf_probe_read_user(&size, sizeof(size), (void *)(name + 8)) || size ||
	    bpf_probe_read_user(text, sizeof(size), (void *)object))
		return 0;
	return RECORD_NAME_NUMBER;
}

/* One that a NUL ends: at the address, or where the word there points to. */
static __always_inline __u32 read_characters(char *text, __u32 room, __u64 address, __u8 form,
					     __u32 cpu)
{
	if (form == NAME_C_STRING)
		address = read_word(address, cpu);
	return read_string(text, room, address, cpu);
}

static __always_inline int send_name(__u64 object, const struct record_layout *layout, __u64 cookie,
				     __u64 now, __u32 cpu)
{
	struct record_name *r = record_reserve(cpu, sizeof(*r));
	__u64 name, type;

	if (!r)
		return -1;
	record_head(&r->head, now, (__u32)bpf_get_current_pid_tgid(), RECORD_NAME, sizeof(*r));
	r->head.site = COOKIE_SITE(cookie);
	r->head.target = COOKIE_TARGET(cookie);
	r->object = object;
	for (int i = 0; i < RECORD_STEPS && i < layout->n_steps; i++)
		object = read_word(object + layout->steps[i], cpu);
	name = object + layout->name_offset;
	type = object + layout->type_offset;
	if (layout->form == NAME_INLINE || layout->form == NAME_C_STRING) {
		r->name_size = read_characters(r->name, sizeof(r->name), name, layout->form, cpu);
		r->type_size = read_characters(r->type, sizeof(r->type), type, layout->form, cpu);
	} else {
		r->name_size = read_view(r->name, sizeof(r->name), name, layout->form);
		r->type_size = read_view(r->type, sizeof(r->type), type, layout->form);
		if (layout->form == NAME_STRING_OR_NUMBER && !r->name_size)
			r->name_size = read_number(r->name, object, name);
	}
	if (!r->name_size || !r->type_size)
		COUNT(cpu, read_failed);
	record_submit(r);
	return 0;
}

/*
 * The layout of the target's objects. The front writes it, and may change it between a check and a
 * use: each word is read once, and reaches no further than objects do.
 */
static __always_inline bool read_layout(const struct record_layout *shared,
					struct record_layout *ret)
{
	ret->name_offset = *(const volatile __u32 *)&shared->name_offset;
	ret->type_offset = *(const volatile __u32 *)&shared->type_offset;
	ret->n_steps = *(const volatile __u8 *)&shared->n_steps;
	ret->form = *(const volatile __u8 *)&shared->form;
	for (int i = 0; i < RECORD_STEPS; i++)
		ret->steps[i] = *(const volatile __u16 *)&shared->steps[i] & RECORD_STEP_MAX;
	return ret->type_offset && ret->type_offset <= RECORD_STEP_MAX &&
	       ret->name_offset <= RECORD_STEP_MAX;
}

static __always_inline __u64 object_key(__u64 object, __u64 cookie)
{
	/* As target_key() of the correlator: the upper byte is the target's number, whatever the
	 * target's address has there. */
	return (object & 0x00ffffffffffffffULL) | COOKIE_TARGET(cookie) << 56;
}

/* Sends an object's name when it is used for the first time. */
static __always_inline void introduce_object(const struct record_control *c, __u64 object,
					     __u64 cookie, __u64 now, __u32 cpu)
{
	const struct record_layout *shared =
		&c->layout[COOKIE_TARGET(cookie) % RECORD_MAX_TARGETS][COOKIE_LAYOUT(cookie)];
	struct record_layout layout;
	__u64 key = object_key(object, cookie);
	__u8 seen = 1;
	long err;

	if (bpf_map_lookup_elem(&objects, &key))
		return;
	/* -EEXIST: another CPU is sending it at this moment. */
	err = bpf_map_update_elem(&objects, &key, &seen, BPF_NOEXIST);
	if (is_full(err))
		COUNT(cpu, table_full);
	else if (!err &&
		 (read_layout(shared, &layout) ? send_name(object, &layout, cookie, now, cpu)
					       : send_object(object, cookie, now, cpu)))
		bpf_map_delete_elem(&objects, &key);
}

/* An object is used, or goes. */
static __always_inline int send_object_use(const struct record_control *c,
					   const struct pt_regs *regs, const struct values *v,
					   __u64 cookie, __u64 now, __u32 cpu)
{
	__u64 object = v->words[PATH_VALUE], key = object_key(object, cookie);
	struct record_probe *r;

	if (COOKIE_ACTION(cookie) == ACTION_OBJECT)
		introduce_object(c, object, cookie, now, cpu);
	else if (bpf_map_delete_elem(&objects, &key))
		/* Never used in this capture: nobody needs to know. */
		return 0;
	r = record_reserve(cpu, sizeof(*r));
	if (!r)
		return 0;
	fill_probe(r, regs, cookie, now, sizeof(*r), object, v->words[PATH_TAG]);
	record_submit(r);
	return 0;
}

/* A process that got the pid of a target that ended is not that target, nor is one that the broker
 * has removed. */
static __always_inline bool is_authorized(__u64 cookie)
{
	const struct record_targets *t = targets_get();

	return t && had_started(bpf_get_current_task_btf(), t->alive_ns[COOKIE_TARGET(cookie)]);
}

SEC("uprobe")
int probe(struct pt_regs *regs)
{
	__u64 now = bpf_ktime_get_ns(), cookie;
	__u32 cpu = bpf_get_smp_processor_id();
	struct record_control *c = window_open(now);
	struct values v;

	if (!c)
		return 0;
	cookie = bpf_get_attach_cookie(regs);
	if (!is_authorized(cookie))
		return 0;
	if (COOKIE_ACTION(cookie) == ACTION_ENTRY)
		return send_probe(regs, cookie, now, cpu);
	v = read_values(regs, cookie, cpu);
	switch (COOKIE_ACTION(cookie)) {
	case ACTION_READ:
		return send_values(regs, &v, cookie, now, cpu);
	case ACTION_OBJECT:
	case ACTION_OBJECT_FREE:
		return send_object_use(c, regs, &v, cookie, now, cpu);
	default:
		return send_text(regs, &v, cookie, now, cpu);
	}
}
