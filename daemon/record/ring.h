/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads BPF ring buffers by mmap alone, for a process that may not call bpf(2). The layout is the
 * kernel's (kernel/bpf/ringbuf.c): a page with the consumer's position, a page with the producer's,
 * and the data, mapped twice in a row.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ring;

/* Maps the ring buffer behind fd, of size bytes of data; fd is not kept. -errno of mmap. */
int ring_open(int fd, size_t size, struct ring **ret);
struct ring *ring_close(struct ring *ring);

/* Whether every record was read. */
bool ring_is_empty(const struct ring *ring);

/* A record and its size; returns 0 or a negative errno to stop. */
typedef int (*ring_fn)(const void *record, size_t size, void *data);

/*
 * Passes on the records that were there at the time of the call and frees their room. Returns 0; 1
 * if one of them was not complete yet, so that it and all later ones stay; or what fn returned.
 */
int ring_consume(struct ring *ring, ring_fn fn, void *data);
