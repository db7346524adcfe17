/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of the loop's time a client has used, on all of its connections together. A client that
 * uses more than its share waits, so that the others are served without delay whatever it sends. No
 * clock: the time is passed in.
 */
#pragma once

#include <stdint.h>

struct grpc_account {
	uint64_t id;
	unsigned n_connections;
	uint64_t paid_ns; /* by this time its share covers what it has used */
	struct grpc_account *next;
};

/* The account of a client for one more connection, from a list. NULL: out of memory. */
struct grpc_account *grpc_account_join(struct grpc_account **list, uint64_t id, uint64_t now);
/* One connection less. The account stays while it waits: a new connection is no new share. */
void grpc_account_leave(struct grpc_account *account);
void grpc_accounts_clear(struct grpc_account **list);

/* It has used so many ns of the loop. */
void grpc_account_charge(struct grpc_account *account, uint64_t now, uint64_t used_ns);
/* From when on the client may be served. */
uint64_t grpc_account_ready_at(const struct grpc_account *account);
