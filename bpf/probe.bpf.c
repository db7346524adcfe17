/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The entry probe of a target's functions: one program for all, so that a file of a target has one
 * link, which comes and goes at once. What a probe reads, and which one it is, is in its attach
 * cookie.
 */
#include "bpf/common.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile __u32 cpus_per_ring = 1, n_rings = 1;

/* Objects whose name was sent in this capture, keyed by address and target. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, __u64);
	__type(value, __u8);
} objects SEC(".maps");

/* std::string_view. */
struct string_view {
	__u64 size;
	__u64 bytes;
};

/* Each read stays on its own: the verifier refuses an address that is computed from the context. */
#define ARGUMENT(number, field)                                                                    \
	case number: {                                                                             \
		__u64 word_ = regs->field;                                                         \
		asm volatile("" : "+r"(word_));                                                    \
		return word_;                                                                      \
	}

static __always_inline __u64 argument(const struct pt_regs *regs, __u64 number)
{
	switch (number) {
		ARGUMENT(REGISTER_RDI, di)
		ARGUMENT(REGISTER_RSI, si)
		ARGUMENT(REGISTER_RDX, dx)
		ARGUMENT(REGISTER_RCX, cx)
		ARGUMENT(REGISTER_R8, r8)
		ARGUMENT(REGISTER_R9, r9)
		ARGUMENT(REGISTER_RAX, ax)
		ARGUMENT(REGISTER_RBX, bx)
		ARGUMENT(REGISTER_RBP, bp)
		ARGUMENT(REGISTER_R10, r10)
		ARGUMENT(REGISTER_R11, r11)
		ARGUMENT(REGISTER_R12, r12)
		ARGUMENT(REGISTER_R13, r13)
		ARGUMENT(REGISTER_R14, r14)
		ARGUMENT(REGISTER_R15, r15)
	default:
		return 0;
	}
}

static __always_inline __u64 read_word(__u64 address, __u32 cpu)
{
	__u64 word = 0;

	if (bpf_probe_read_user(&word, sizeof(word), (void *)address))
		COUNT(cpu, read_failed);
	return word;
}

static __always_inline void fill_probe(struct record_probe *r, const struct pt_regs *regs,
				       __u64 cookie, __u64 now, __u64 size)
{
	record_head(&r->head, now, (__u32)bpf_get_current_pid_tgid(), RECORD_PROBE, size);
	r->head.site = COOKIE_SITE(cookie);
	r->head.target = COOKIE_TARGET(cookie);
	r->stack = (__u32)(regs->sp + COOKIE_STACK8(cookie) * 8);
	r->tag = (__u32)argument(regs, COOKIE_TAG(cookie));
	r->value = argument(regs, COOKIE_VALUE(cookie));
}

static __always_inline int send_probe(const struct pt_regs *regs, __u64 cookie, __u64 now,
				      __u32 cpu)
{
	struct record_probe *r = record_reserve(cpu, sizeof(*r));

	if (!r)
		return 0;
	fill_probe(r, regs, cookie, now, sizeof(*r));
	record_submit(r);
	return 0;
}

/* The same with values that are read through pointers. */
static __always_inline int send_values(const struct pt_regs *regs, __u64 cookie, __u64 now,
				       __u32 cpu)
{
	struct record_probe2 *r = record_reserve(cpu, sizeof(*r));
	__u64 value2;

	if (!r)
		return 0;
	fill_probe(&r->probe, regs, cookie, now, sizeof(*r));
	if (cookie & COOKIE_DEREF)
		r->probe.value = read_word(r->probe.value + COOKIE_OFFSET(cookie), cpu);
	if (cookie & COOKIE_DEREF_AGAIN)
		r->probe.value = read_word(r->probe.value, cpu);
	value2 = argument(regs, COOKIE_VALUE2(cookie));
	if (cookie & COOKIE_DEREF2)
		value2 = read_word(value2 + COOKIE_OFFSET2(cookie), cpu);
	r->value2 = value2;
	record_submit(r);
	return 0;
}

/* Reads a string that a NUL ends. Returns its size, of which one too large for a record is only
 * known to be larger. */
static __always_inline __u32 read_text(struct record_text *r, __u64 address, __u32 cpu)
{
	long n = bpf_probe_read_user_str(r->text, sizeof(r->text), (void *)address);

	if (n <= 0) {
		COUNT(cpu, read_failed);
		return 0;
	}
	if (n < (long)sizeof(r->text))
		return n - 1;
	/* The helper has put its own NUL where there may be one more byte. */
	if (bpf_probe_read_user(&r->text[RECORD_TEXT_SIZE - 1], 1,
				(void *)(address + RECORD_TEXT_SIZE - 1)))
		return RECORD_TEXT_SIZE - 1;
	return r->text[RECORD_TEXT_SIZE - 1] ? RECORD_TEXT_SIZE + 1 : RECORD_TEXT_SIZE - 1;
}

/* The same with a string; no more of the target's memory is read than its size, nor than a record
 * holds. */
static __always_inline int send_text(const struct pt_regs *regs, __u64 cookie, __u64 now, __u32 cpu)
{
	struct record_text *r = record_reserve(cpu, sizeof(*r));
	__u64 claimed;
	__u32 size;

	if (!r)
		return 0;
	fill_probe(&r->probe, regs, cookie, now, sizeof(*r));
	r->probe.head.kind = RECORD_TEXT;
	r->reserved = 0;
	__builtin_memset(r->text, 0, sizeof(r->text));
	if (cookie & COOKIE_DEREF)
		r->probe.value = read_word(r->probe.value + COOKIE_OFFSET(cookie), cpu);
	else if (COOKIE_ACTION(cookie) == ACTION_TEXT_NUL)
		r->probe.value += COOKIE_OFFSET(cookie);
	if (COOKIE_ACTION(cookie) == ACTION_TEXT_NUL) {
		r->size = read_text(r, r->probe.value, cpu);
		record_submit(r);
		return 0;
	}
	claimed = argument(regs, COOKIE_VALUE2(cookie));
	if (cookie & COOKIE_DEREF2)
		claimed = read_word(claimed + COOKIE_OFFSET2(cookie), cpu);
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

/* Looks at one place of an object. */
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

/* Sends every string view that an object seems to hold, for user space to find out which is its
 * name and which its type. */
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

static __always_inline int send_name(__u64 object, const struct record_layout *layout, __u64 cookie,
				     __u64 now, __u32 cpu)
{
	struct record_name *r = record_reserve(cpu, sizeof(*r));
	struct string_view name = {}, type = {};
	__u32 size;

	if (!r)
		return -1;
	record_head(&r->head, now, (__u32)bpf_get_current_pid_tgid(), RECORD_NAME, sizeof(*r));
	r->head.site = COOKIE_SITE(cookie);
	r->head.target = COOKIE_TARGET(cookie);
	r->object = object;
	for (int i = 0; i < RECORD_STEPS && i < layout->n_steps; i++)
		object = read_word(object + layout->steps[i], cpu);
	bpf_probe_read_user(&name, sizeof(name), (void *)(object + layout->name_offset));
	bpf_probe_read_user(&type, sizeof(type), (void *)(object + layout->type_offset));
	if (layout->form == NAME_STRING) {
		name = (struct string_view){ .size = name.bytes, .bytes = name.size };
		type = (struct string_view){ .size = type.bytes, .bytes = type.size };
	}
	size = name.size < RECORD_NAME_SIZE ? name.size : RECORD_NAME_SIZE;
	if (bpf_probe_read_user(r->name, size, (void *)name.bytes))
		name.size = 0;
	size = type.size < RECORD_TYPE_SIZE ? type.size : RECORD_TYPE_SIZE;
	if (bpf_probe_read_user(r->type, size, (void *)type.bytes))
		type.size = 0;
	if (!name.size || !type.size)
		COUNT(cpu, read_failed);
	r->name_size = name.size;
	r->type_size = type.size;
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
	return ret->type_offset &&
	       ret->type_offset <= RECORD_OBJECT_BYTES - sizeof(struct string_view) &&
	       ret->name_offset <= RECORD_OBJECT_BYTES - sizeof(struct string_view);
}

static __always_inline __u64 object_key(__u64 object, __u64 cookie)
{
	/* As target_key() of the correlator: the upper byte is the target's number, whatever a
	 * target has there. */
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
	int err;

	if (bpf_map_lookup_elem(&objects, &key))
		return;
	/* -EEXIST: another CPU is just sending it. */
	err = bpf_map_update_elem(&objects, &key, &seen, BPF_NOEXIST);
	if (err == -7 /* E2BIG */ || err == -12 /* ENOMEM */)
		COUNT(cpu, table_full);
	else if (!err &&
		 (read_layout(shared, &layout) ? send_name(object, &layout, cookie, now, cpu)
					       : send_object(object, cookie, now, cpu)))
		bpf_map_delete_elem(&objects, &key);
}

SEC("uprobe")
int probe(struct pt_regs *regs)
{
	__u64 now = bpf_ktime_get_ns(), cookie, key;
	__u32 cpu = bpf_get_smp_processor_id();
	struct record_control *c = window_open(now);

	if (!c)
		return 0;
	cookie = bpf_get_attach_cookie(regs);
	switch (COOKIE_ACTION(cookie)) {
	case ACTION_READ:
		return send_values(regs, cookie, now, cpu);
	case ACTION_TEXT:
	case ACTION_TEXT_END:
		return send_text(regs, cookie, now, cpu);
	case ACTION_OBJECT:
		introduce_object(c, argument(regs, COOKIE_VALUE(cookie)), cookie, now, cpu);
		break;
	case ACTION_OBJECT_FREE:
		key = object_key(argument(regs, COOKIE_VALUE(cookie)), cookie);
		/* Never used in this capture: nobody needs to know. */
		if (bpf_map_delete_elem(&objects, &key))
			return 0;
		break;
	}
	return send_probe(regs, cookie, now, cpu);
}
