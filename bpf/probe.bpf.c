/* Entry probes of a target's functions. What a probe reads, and which one it is, is in its attach cookie. */
#include "bpf/common.bpf.h"

char LICENSE[] SEC("license") = "GPL";

const volatile __u32 cpus_per_ring = 1;

/* Objects whose name was sent in this capture, keyed by address and target. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, __u64);
	__type(value, __u8);
} objects SEC(".maps");

struct string_view {
	__u64 size;
	__u64 bytes;
};

/* Each read stays on its own: the verifier refuses an address that is computed from the context. */
#define ARGUMENT(number, field)                     \
	case number: {                              \
		__u64 word_ = regs->field;          \
		asm volatile("" : "+r"(word_));     \
		return word_;                       \
	}

static __always_inline __u64 argument(const struct pt_regs *regs, __u64 number)
{
	switch (number) {
		ARGUMENT(1, di)
		ARGUMENT(2, si)
		ARGUMENT(3, dx)
		ARGUMENT(4, cx)
		ARGUMENT(5, r8)
		ARGUMENT(6, r9)
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

static __always_inline void fill_probe(struct record_probe *r, const struct pt_regs *regs, __u64 cookie, __u64 now, __u64 size)
{
	record_head(&r->head, now, (__u32)bpf_get_current_pid_tgid(), RECORD_PROBE, size);
	r->head.site = COOKIE_SITE(cookie);
	r->head.target = COOKIE_TARGET(cookie);
	r->stack = (__u32)(regs->sp + COOKIE_STACK8(cookie) * 8);
	r->tag = (__u32)argument(regs, COOKIE_TAG(cookie));
	r->value = argument(regs, COOKIE_VALUE(cookie));
}

static __always_inline int send_probe(const struct pt_regs *regs, __u64 cookie, __u64 now, __u32 cpu)
{
	struct record_probe *r = record_reserve(cpu, sizeof(*r));

	if (!r)
		return 0;
	fill_probe(r, regs, cookie, now, sizeof(*r));
	record_submit(r);
	return 0;
}

/* A function was entered: one value, one tag. The plainest and most frequent probe. */
SEC("uprobe")
int probe_entry(struct pt_regs *regs)
{
	__u64 now = bpf_ktime_get_ns(), cookie;
	__u32 cpu = bpf_get_smp_processor_id();

	if (!window_open(now))
		return 0;
	cookie = bpf_get_attach_cookie(regs);
	return send_probe(regs, cookie, now, cpu);
}

/* The same with values that are read through pointers. */
SEC("uprobe")
int probe_entry_read(struct pt_regs *regs)
{
	__u64 now = bpf_ktime_get_ns(), cookie, value2;
	__u32 cpu = bpf_get_smp_processor_id();
	struct record_probe2 *r;

	if (!window_open(now))
		return 0;
	cookie = bpf_get_attach_cookie(regs);
	r = record_reserve(cpu, sizeof(*r));
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

/* Sends every string view that an object seems to hold, for user space to find out which is its name and which its type. */
static __always_inline int send_object(__u64 object, __u64 cookie, __u64 now, __u32 cpu)
{
	struct record_object *r = record_reserve(cpu, sizeof(*r));

	if (!r)
		return -1;
	record_head(&r->head, now, (__u32)bpf_get_current_pid_tgid(), RECORD_OBJECT, sizeof(*r));
	r->head.target = COOKIE_TARGET(cookie);
	r->object = object;
	r->reserved = 0;
	/* Counted in the record: a number that the verifier does not follow keeps its work small. */
	r->n_candidates = 0;
	for (__u32 i = 0; i < RECORD_OBJECT_BYTES / 8 - 1; i++) {
		struct string_view view = {};
		struct record_candidate *c;
		__u32 size, n = *(volatile __u32 *)&r->n_candidates;

		if (bpf_probe_read_user(&view, sizeof(view), (void *)(object + i * 8)))
			break;
		if (view.size == 0 || view.size > RECORD_NAME_SIZE || view.bytes < 4096 || view.bytes >> 47)
			continue;
		if (n >= RECORD_CANDIDATES)
			break;
		c = &r->candidates[n];
		size = view.size < RECORD_CANDIDATE_SIZE ? view.size : RECORD_CANDIDATE_SIZE;
		if (bpf_probe_read_user(c->bytes, size, (void *)view.bytes))
			continue;
		c->offset = i * 8;
		c->size = view.size;
		r->n_candidates = n + 1;
	}
	record_submit(r);
	return 0;
}

static __always_inline int send_name(__u64 object, const struct record_layout *layout, __u64 cookie, __u64 now, __u32 cpu)
{
	struct record_name *r = record_reserve(cpu, sizeof(*r));
	struct string_view name = {}, type = {};
	__u32 size;

	if (!r)
		return -1;
	record_head(&r->head, now, (__u32)bpf_get_current_pid_tgid(), RECORD_NAME, sizeof(*r));
	r->head.target = COOKIE_TARGET(cookie);
	r->object = object;
	bpf_probe_read_user(&name, sizeof(name), (void *)(object + layout->name_offset));
	bpf_probe_read_user(&type, sizeof(type), (void *)(object + layout->type_offset));
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

/* The front writes the layout: it may not reach beyond the object with it. */
static __always_inline bool layout_known(const struct record_layout *layout)
{
	return layout->type_offset && layout->type_offset <= RECORD_OBJECT_BYTES - sizeof(struct string_view) &&
	       layout->name_offset <= RECORD_OBJECT_BYTES - sizeof(struct string_view);
}

static __always_inline __u64 object_key(__u64 object, __u64 cookie)
{
	return object | COOKIE_TARGET(cookie) << 56;
}

/* A function that works on a named object was entered: its name goes before its first use. */
SEC("uprobe")
int probe_object(struct pt_regs *regs)
{
	__u64 now = bpf_ktime_get_ns(), cookie, object, key;
	__u32 cpu = bpf_get_smp_processor_id();
	struct record_control *c;

	c = window_open(now);
	if (!c)
		return 0;
	cookie = bpf_get_attach_cookie(regs);
	object = argument(regs, COOKIE_VALUE(cookie));
	key = object_key(object, cookie);
	if (!bpf_map_lookup_elem(&objects, &key)) {
		const struct record_layout *layout = &c->layout[COOKIE_TARGET(cookie) % RECORD_MAX_TARGETS];
		__u8 seen = 1;

		/* -EEXIST: another CPU is just sending it. */
		int err = bpf_map_update_elem(&objects, &key, &seen, BPF_NOEXIST);

		if (err == -7 /* E2BIG */ || err == -12 /* ENOMEM */)
			COUNT(cpu, table_full);
		else if (!err && (layout_known(layout) ? send_name(object, layout, cookie, now, cpu) :
							 send_object(object, cookie, now, cpu)))
			bpf_map_delete_elem(&objects, &key);
	}
	return send_probe(regs, cookie, now, cpu);
}

/* A named object is about to be destroyed: its address says nothing from now on. */
SEC("uprobe")
int probe_object_free(struct pt_regs *regs)
{
	__u64 now = bpf_ktime_get_ns(), cookie, key;
	__u32 cpu = bpf_get_smp_processor_id();

	if (!window_open(now))
		return 0;
	cookie = bpf_get_attach_cookie(regs);
	key = object_key(argument(regs, COOKIE_VALUE(cookie)), cookie);
	/* Never used in this capture: nobody needs to know. */
	if (bpf_map_delete_elem(&objects, &key))
		return 0;
	return send_probe(regs, cookie, now, cpu);
}
