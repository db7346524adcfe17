/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan as bytes of a file in memory. The prover, which read the target's file, writes them; the
 * broker reads the sites, which have a fixed size, and checks every field; the front reads all of
 * it. The sites are proved as far as the prover can be trusted: a hostile file may have taken the
 * prover over, but that one knows no other file.
 */
#pragma once

#include <stdint.h>

#include "daemon/plan/plan.h"

#define PROOF_BYTES_MAX (16u << 20)

/* To the beginning of the file. -E2BIG beyond PROOF_BYTES_MAX, -ENOMEM, and what write returns. */
int proof_write(int fd, const struct plan *plan);

/* The sites without their texts (symbol, site.text, site.reason), and no names of operations.
 * -EBADMSG: it is malformed; -ENOMEM, and what pread returns. */
int proof_read_sites(int fd, const struct pack_set *set, struct plan **ret);
/* All of it; errors as above. */
int proof_read(int fd, const struct pack_set *set, struct plan **ret);
