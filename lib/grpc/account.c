/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/grpc/account.h"

#include <stdlib.h>

#include "lib/base/macro.h"

/* A client may use one ns of so many. */
#define SHARE 2
/* What it may use at once, and the longest wait, both as the time that its share takes for it. */
#define BURST_NS 10000000ull
#define WAIT_MAX_NS 40000000ull

struct grpc_account *grpc_account_join(struct grpc_account **list, uint64_t id, uint64_t now)
{
	struct grpc_account *account;

	for (struct grpc_account **at = list; *at;) {
		account = *at;
		if (account->id == id) {
			account->n_connections++;
			return account;
		}
		if (account->n_connections || account->paid_ns > now) {
			at = &account->next;
			continue;
		}
		*at = account->next;
		free(account);
	}
	account = calloc(1, sizeof(*account));
	if (!account)
		return NULL;
	*account = (struct grpc_account){ .id = id, .n_connections = 1, .next = *list };
	*list = account;
	return account;
}

void grpc_account_leave(struct grpc_account *account)
{
	account->n_connections--;
}

void grpc_accounts_clear(struct grpc_account **list)
{
	while (*list) {
		struct grpc_account *account = *list;

		*list = account->next;
		free(account);
	}
}

void grpc_account_charge(struct grpc_account *account, uint64_t now, uint64_t used_ns)
{
	used_ns = MIN(used_ns, BURST_NS + WAIT_MAX_NS);
	account->paid_ns =
		MIN(MAX(account->paid_ns, now) + used_ns * SHARE, now + BURST_NS + WAIT_MAX_NS);
}

uint64_t grpc_account_ready_at(const struct grpc_account *account)
{
	return account->paid_ns > BURST_NS ? account->paid_ns - BURST_NS : 0;
}
