/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/authority.h"

bool authority_may_profile_all(uid_t user)
{
	return user == 0;
}

bool authority_may_profile(uid_t user, uid_t owner)
{
	return authority_may_profile_all(user) || user == owner;
}

bool authority_may_control(uid_t user, uid_t beginner)
{
	return user == 0 || user == beginner;
}
