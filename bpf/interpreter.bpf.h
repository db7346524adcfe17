/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The functions of a script that a sampled thread executes, which its interpreter keeps in memory
 * of the target. Each step is checked: the thread's state has the thread's own id, and code has the
 * type of code; without that nothing is reported. Only names of functions and files are read.
 */
#pragma once

#include "bpf/common.bpf.h"

/* Functions of a capture, and of one target, that have a number: one that makes functions without
 * end leaves room for others. */
#define SCRIPTS_MAX 16384
#define TARGET_SCRIPTS_MAX 4096
/* Threads of an interpreter that are looked at for the sampled one. */
#define SCRIPT_THREADS_MAX 512
/* The frames of a sample, and where the interpreter is. */
#define SCRIPT_FOUND (RECORD_SCRIPT_FRAMES + SCRIPT_RANGES)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RECORD_MAX_TARGETS);
	__type(key, __u32);
	__type(value, struct record_interpreter);
} interpreters SEC(".maps");

/* Code whose number was sent. Its address can be reused: whatever takes it has another name, file
 * or line, or is the same function. */
struct script_key {
	__u64 code, name, file;
	__u32 line, target;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SCRIPTS_MAX);
	__type(key, struct script_key);
	__type(value, __u32);
} scripts SEC(".maps");

/* How many have one: of each target, and of all. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RECORD_MAX_TARGETS + 1);
	__type(key, __u32);
	__type(value, __u32);
} script_count SEC(".maps");

/* A walk from a thread's innermost frame outwards. */
struct script_walk {
	__u64 now;
	__u64 id;     /* of the thread */
	__u64 thread; /* the next one to look at */
	__u64 calls;  /* of the thread that was found; 0: none was */
	__u64 frame;  /* the next one */
	__u32 target, n;
	__u32 flags; /* as record_stack.script */
	struct script_key key;
	__u64 words[SCRIPT_WORDS];
	__u64 found[SCRIPT_FOUND];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct script_walk);
} script_walks SEC(".maps");

/* So many bytes of these objects are read. */
#define SCRIPT_THREAD_BYTES 184
#define SCRIPT_FRAME_BYTES 80
#define SCRIPT_CODE_BYTES 136
/* Frames that are looked at: some have no function, up to one for each that has, and one more. */
#define SCRIPT_STEPS (2 * RECORD_SCRIPT_FRAMES + 1)
/* Of an object's address, which may have marks in them. */
#define SCRIPT_LOW_BITS 7ULL

static __always_inline __u64 script_word(const struct script_walk *w, __u16 offset)
{
	return w->words[offset / 8 % SCRIPT_WORDS];
}

/* 4 bytes, or fewer. */
static __always_inline __u32 script_half(const struct script_walk *w, __u16 offset)
{
	return (__u32)(script_word(w, offset) >> offset % 8 * 8);
}

static __always_inline bool script_read(void *ret, __u32 size, __u64 address)
{
	return bpf_probe_read_user(ret, size, (const void *)address) == 0;
}

static __always_inline struct script_walk *script_walk_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&script_walks, &zero);
}

/* The end of a text; returns its whole size. */
static __always_inline __u32 script_text(char *ret, const struct script_layout *l, __u64 text)
{
	__u64 size = 0;
	__u32 state = 0, kept;

	if (!script_read(&size, sizeof(size), text + l->text_size) ||
	    !script_read(&state, sizeof(state), text + l->text_state))
		return 0;
	if ((state & l->text_is_ascii) != l->text_is_ascii)
		return SCRIPT_NOT_ASCII;
	kept = size < RECORD_SCRIPT_TEXT ? (__u32)size : RECORD_SCRIPT_TEXT;
	if (!kept || !script_read(ret, kept, text + l->text_bytes + size - kept))
		return 0;
	return size < SCRIPT_NOT_ASCII ? (__u32)size : SCRIPT_NOT_ASCII - 1;
}

/* The number of the walk's code, whose names are sent the first time. 0: there is no room. */
__weak ENTRY script_number(void)
{
	struct script_walk *w = script_walk_get();
	const struct record_interpreter *in;
	__u32 number, all = RECORD_MAX_TARGETS, *known, *count, *own;
	struct record_script *r;

	if (!w)
		return 0;
	known = bpf_map_lookup_elem(&scripts, &w->key);
	if (known)
		return *known;
	in = bpf_map_lookup_elem(&interpreters, &w->target);
	own = bpf_map_lookup_elem(&script_count, &w->target);
	count = bpf_map_lookup_elem(&script_count, &all);
	if (!in || !own || !count || *own >= TARGET_SCRIPTS_MAX || *count >= SCRIPTS_MAX)
		return 0;
	r = record_reserve(bpf_get_smp_processor_id(), sizeof(*r));
	if (!r)
		return 0;
	number = __sync_fetch_and_add(count, 1) + 1;
	__sync_fetch_and_add(own, 1);
	record_head(&r->head, w->now, (__u32)bpf_get_current_pid_tgid(), RECORD_SCRIPT, sizeof(*r));
	r->head.target = w->target;
	r->number = number;
	r->line = w->key.line;
	__builtin_memset(r->name, 0, sizeof(r->name));
	__builtin_memset(r->file, 0, sizeof(r->file));
	r->name_size = script_text(r->name, &in->layout, w->key.name);
	r->file_size = script_text(r->file, &in->layout, w->key.file);
	record_submit(r);
	/* Another CPU may have sent it, too: it then has two numbers. */
	bpf_map_update_elem(&scripts, &w->key, &number, BPF_ANY);
	return number;
}

/* Whether the walk's thread is the one that was sampled. */
static __always_inline bool script_is_thread(struct script_walk *w, const struct script_layout *l)
{
	if (!script_read(w->words, SCRIPT_THREAD_BYTES, w->thread) ||
	    script_word(w, l->thread_id) != w->id)
		return false;
	w->calls = script_word(w, l->thread_calls);
	return true;
}

static long script_next_thread(__u32 i, void *data)
{
	struct script_walk *w = script_walk_get();
	const struct record_interpreter *in =
		w ? bpf_map_lookup_elem(&interpreters, &w->target) : NULL;

	if (!in || !w->thread || script_is_thread(w, &in->layout))
		return 1;
	w->thread = script_word(w, in->layout.thread_next);
	return 0;
}

static long script_next_frame(__u32 i, void *data)
{
	struct script_walk *w = script_walk_get();
	const struct record_interpreter *in =
		w ? bpf_map_lookup_elem(&interpreters, &w->target) : NULL;
	const struct script_layout *l;
	__u64 code, previous, number;
	bool has_function, is_entry;
	__u8 kind;

	if (!in)
		return 1;
	l = &in->layout;
	w->flags |= SCRIPT_UNREADABLE;
	if (!script_read(w->words, SCRIPT_FRAME_BYTES, w->frame))
		return 1;
	code = script_word(w, l->frame_code) & ~SCRIPT_LOW_BITS;
	previous = script_word(w, l->frame_previous);
	kind = (__u8)script_half(w, l->frame_kind);
	has_function = l->entries != SCRIPT_ENTRIES_INSIDE || kind < SCRIPT_NO_FUNCTION;
	if (!has_function && w->n)
		w->found[(w->n - 1) % RECORD_SCRIPT_FRAMES] |= SCRIPT_IS_ENTRY;
	if (!has_function || w->n >= RECORD_SCRIPT_FRAMES) {
		w->flags &= ~SCRIPT_UNREADABLE;
		w->frame = has_function ? w->frame : previous;
		return has_function || !previous;
	}
	is_entry = l->entries == SCRIPT_ENTRIES_ALL ||
		   (l->entries == SCRIPT_ENTRIES_MARKED && kind == 1);
	if (!script_read(w->words, SCRIPT_CODE_BYTES, code) ||
	    script_word(w, l->object_type) != in->code_type)
		return 1;
	w->flags &= ~SCRIPT_UNREADABLE;
	w->frame = previous;
	/* Code of the interpreter's own, which calls __init__(): its name is also its file, and it
	 * has no line. */
	if (script_word(w, l->code_name) == script_word(w, l->code_file) &&
	    !script_half(w, l->code_line))
		return previous == 0;
	w->key = (struct script_key){ .code = code,
				      .name = script_word(w, l->code_name),
				      .file = script_word(w, l->code_file),
				      .line = script_half(w, l->code_line),
				      .target = w->target };
	number = (__u32)script_number();
	w->found[w->n++ % RECORD_SCRIPT_FRAMES] = number | (is_entry ? SCRIPT_IS_ENTRY : 0);
	return previous == 0;
}

/* Finds the frame that the thread executes. Without the interpreter's lock it can execute none, but
 * its frames are there. */
static __always_inline void script_find(struct script_walk *w, const struct record_interpreter *in)
{
	const struct script_layout *l = &in->layout;
	__u64 interpreter = 0;

	if (l->runtime_current &&
	    script_read(&w->thread, sizeof(w->thread), in->runtime + l->runtime_current) &&
	    w->thread)
		script_is_thread(w, l);
	if (!w->calls &&
	    script_read(&interpreter, sizeof(interpreter), in->runtime + l->runtime_interpreter) &&
	    interpreter &&
	    script_read(&w->thread, sizeof(w->thread), interpreter + l->interpreter_threads))
		bpf_loop(SCRIPT_THREADS_MAX, script_next_thread, NULL, 0);
	if (l->calls_frame == SCRIPT_DIRECT)
		w->frame = w->calls;
	else if (w->calls && !script_read(&w->frame, sizeof(w->frame), w->calls + l->calls_frame))
		w->flags |= SCRIPT_UNREADABLE;
}

/* Walks the current thread of the target; the words that record_script.h describes are then in the
 * walk. Returns their number. */
__weak ENTRY scripts_walk(__u32 target, __u64 now)
{
	const struct record_interpreter *in = bpf_map_lookup_elem(&interpreters, &target);
	struct script_walk *w = script_walk_get();
	__u32 n;

	if (!in || !in->runtime || !w)
		return 0;
	w->now = now;
	w->target = target;
	w->id = BPF_CORE_READ(bpf_get_current_task_btf(), thread.fsbase);
	w->thread = w->calls = w->frame = 0;
	w->n = w->flags = 0;
	script_find(w, in);
	if (w->frame)
		bpf_loop(SCRIPT_STEPS, script_next_frame, NULL, 0);
	n = w->n;
	/* No interpreter has so many frames without a function in between. */
	if (w->frame && !(w->flags & SCRIPT_UNREADABLE))
		w->flags |= n == RECORD_SCRIPT_FRAMES ? SCRIPT_TRUNCATED : SCRIPT_UNREADABLE;
	w->flags |= n;
	/* The limit must apply to the value that is used. */
	asm volatile("" : "+r"(n));
	if (!n || n > RECORD_SCRIPT_FRAMES)
		return 0;
	w->found[n] = in->evaluator;
	w->found[n + 1] = in->evaluator_end;
	w->found[n + 2] = in->all_code;
	w->found[n + 3] = in->all_code_end;
	return (int)n + SCRIPT_RANGES;
}

/* Appends them to a record; returns the number of words. */
static __always_inline __u32 scripts_append(__u32 target, __u64 now, __u64 *ret, __u16 *ret_script)
{
	const struct record_interpreter *in = bpf_map_lookup_elem(&interpreters, &target);
	const struct script_walk *w = script_walk_get();
	__u32 n;

	if (!in || !in->runtime || !w)
		return 0;
	n = (__u32)scripts_walk(target, now);
	*ret_script = (__u16)w->flags;
	if (!n || n > SCRIPT_FOUND)
		return 0;
	bpf_probe_read_kernel(ret, n * sizeof(__u64), w->found);
	return n;
}
