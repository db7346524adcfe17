/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/share.h"

#define RESERVE_PART 8

uint64_t share_reserve(const struct share *share)
{
	if (share->all < 2)
		return 0;
	return share->all < RESERVE_PART ? 1 : share->all / RESERVE_PART;
}

enum share_verdict share_grant(const struct share *share, uid_t user, uint64_t all, uint64_t own,
			       uint64_t more)
{
	uint64_t limit = user == 0 ? share->all : share->all - share_reserve(share);

	if (user != 0 && own + more > share->per_user)
		return SHARE_OF_USER_HELD;
	return all + more > limit ? SHARE_ALL_HELD : SHARE_GRANTED;
}
