/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the BPF programs and maps of a capture. The first time libbpf loads them: it reads the
 * types of the whole kernel for that, which takes half of the time. What it made of the programs is
 * kept, so that later captures load the same instructions at once. Nothing of it stays in the
 * kernel between captures but the programs' type information.
 */
#pragma once

#include "daemon/broker/kernel/examine.h"
#include "daemon/broker/kernel/programs.h"

/* What is kept between captures; for any thread. Zeros at first. */
struct program_cache;
/* log_directory: where a file with the verifier's words is written when a program is refused; -1:
 * nowhere. Borrowed. */
int program_cache_new(int log_directory, struct program_cache **ret);
struct program_cache *program_cache_free(struct program_cache *cache);

#define PROGRAMS_LOG "refused-programs.log"

/*
 * attach_type: expected of the probe's program; 0: none. kinds: those that are wanted, of
 * PROGRAM_KINDS; .kinds says which of them the kernel takes. ret_reason: what to do about an error,
 * of at most size bytes. -EPERM, -ENOMEM; -EOPNOTSUPP: the kernel refuses a program without which
 * there is no capture; and others of bpf(2).
 */
int programs_load(struct program_cache *cache, int attach_type, unsigned kinds,
		  struct programs *ret, char *ret_reason, size_t size);
/* What the kernel said of each program when it refused one of them: *ret is valid while the cache
 * lives. false: it refused none so far. */
bool programs_refused(struct program_cache *cache, const struct program_verdict **ret);
