/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the BPF programs and maps of a capture. The first time libbpf loads them: it reads the
 * types of the whole kernel for that, which takes half of the time. The prepared programs are kept,
 * so that later captures load the same instructions at once. Between captures only the programs'
 * type information stays in the kernel.
 */
#pragma once

#include "daemon/broker/kernel/examine.h"
#include "daemon/broker/kernel/programs.h"

/* What is kept between captures; may be used by any thread. */
struct program_cache;
/* log_directory: where a file with the verifier's log is written if a program is refused; -1:
 * nowhere. Borrowed. */
int program_cache_new(int log_directory, struct program_cache **ret);
struct program_cache *program_cache_free(struct program_cache *cache);

#define PROGRAMS_LOG "refused-programs.log"

/*
 * attach_type: expected of the probe's program; 0: none. kinds: those that are wanted, of
 * PROGRAM_KINDS; .kinds holds those that the kernel accepts. ret_reason: the remedy for an error,
 * of at most size bytes. -EPERM, -ENOMEM; -EOPNOTSUPP: the kernel refuses a program that no capture
 * can do without; and others of bpf(2).
 */
int programs_load(struct program_cache *cache, int attach_type, unsigned kinds,
		  struct programs *ret, char *ret_reason, size_t size);
/*
 * Loads a set of programs that the next call of programs_load() with the same arguments takes,
 * which then waits for no verifier. programs_drop() drops it after that time, and programs_load()
 * with other arguments. Nothing is loaded if libbpf would have to do it, or another thread loads
 * programs: the capture that waits for them waits for one load at most.
 */
void programs_make_ready(struct program_cache *cache, int attach_type, unsigned kinds,
			 uint64_t for_ns);
/* Whether there is such a set, or may be, after those that are too old have been dropped. Does not
 * wait. */
bool programs_drop(struct program_cache *cache, uint64_t now_ns);
/* The ring buffers of each capture, of BROKER_RING_BYTES. */
unsigned programs_ring_count(void);
/* The kernel's verdict on each program, if it refused one of them: *ret is valid while the cache
 * lives. false: it has refused none so far. */
bool programs_refused(struct program_cache *cache, const struct program_verdict **ret);
