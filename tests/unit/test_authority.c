/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/authority.h"
#include "tests/unit/check.h"

TEST(a_user_may_profile_and_control_its_own_and_root_everything)
{
	CHECK(authority_may_profile(1000, 1000));
	CHECK(!authority_may_profile(1000, 1001));
	CHECK(!authority_may_profile(1000, 0));
	CHECK(authority_may_profile(0, 1000));
	CHECK(authority_may_control(1000, 1000));
	CHECK(!authority_may_control(1000, 0));
	CHECK(authority_may_control(0, 1000));
	CHECK(authority_may_profile_all(0));
	CHECK(!authority_may_profile_all(1000));
}

CHECK_MAIN()
