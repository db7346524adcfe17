/* SPDX-License-Identifier: Apache-2.0 */
/* What threads are inside of: frames, each with its span in the timeline. */
#pragma once

#include "daemon/correlate/correlator.h"

/* An entry into a probed function. */
struct entry {
	const struct pack *pack;
	const struct probe_row *row;
	const struct record_probe *record; /* as long as the row's action makes it */
	uint32_t thread;
};

static inline const struct record_probe2 *entry_values(const struct entry *e)
{
	return (const void *)e->record;
}

/* The string; NULL: the record has none. */
static inline const struct record_text *entry_text(const struct entry *e)
{
	return e->record->head.kind == RECORD_TEXT ? (const void *)e->record : NULL;
}

/* A key for the value, and for the second one. */
static inline uint64_t entry_key(const struct entry *e)
{
	return target_key(e->record->value, e->record->head.target);
}

static inline uint64_t entry_key2(const struct entry *e)
{
	return target_key(entry_values(e)->value2, e->record->head.target);
}

static inline struct span *nesting_span(struct correlator *c, const struct frame *f)
{
	return &c->t->spans[f->span];
}

static inline struct thread_state *entry_state(struct correlator *c, const struct entry *e)
{
	return thread_state(c, e->thread);
}

/* A record of the thread is being handled: the thread has been busy since its last one, ... */
void nesting_busy(struct thread_state *s);
/* ... or may have been without work. */
void nesting_maybe_idle(struct thread_state *s);
/* A frame for the entry, and its span; NULL: no room. */
struct frame *nesting_push(struct correlator *c, const struct entry *e, enum span_kind kind);
/* Ends the top frame at that time (ns), or at the latest time known of it (0); truncated: it goes
 * on after the window. */
void nesting_pop(struct correlator *c, struct thread_state *s, uint64_t end, bool truncated);
/* Pops the frames that must have returned, since this entry's stack pointer is at or above theirs.
 */
void nesting_return(struct correlator *c, struct thread_state *s, uint32_t stack);
/* Ends the innermost operations of the entry's pack without an end mark that began then or later.
 */
void nesting_end_operations(struct correlator *c, const struct entry *e, uint64_t since_ns);
/* Something happened inside the top frame. */
void nesting_touch(struct thread_state *s, uint64_t time);
/* The thread woke another one. */
void nesting_woke(struct thread_state *s, uint64_t time);
/* As nesting_return() and nesting_touch(), for an entry that opens nothing. */
void nesting_pass(struct correlator *c, const struct entry *e);
/* The frames inside that one end, each at the latest time known of it. */
void nesting_end_inner(struct correlator *c, struct thread_state *s, uint32_t at);
/* The frame ends at that time, and those inside it at the latest time known of them. */
void nesting_end(struct correlator *c, struct thread_state *s, uint32_t at, uint64_t time);
/* The frame is truncated at that time, while others around it go on. */
void nesting_truncate(struct correlator *c, struct frames *frames, uint32_t at, uint64_t time);
/*
 * A span that began before the window and ends at this entry; name: of the span. NO_SPAN: no room.
 */
uint64_t nesting_add_begun(struct correlator *c, const struct entry *e, enum span_kind kind,
			   const char *name);
