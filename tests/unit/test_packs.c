/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plan/packs.h"
#include "tests/unit/check.h"

/* Sets are never freed: a front that was taken over could make any number of them. */
TEST(bits_of_packs_that_do_not_exist_make_no_other_set)
{
	unsigned n = 0;

	while (packs[n])
		n++;
	for (unsigned i = n; i < 64; i++)
		CHECK(pack_set_get(1 | UINT64_C(1) << i) == pack_set_get(1));
	CHECK(pack_set_get(UINT64_MAX) == pack_set_get((UINT64_C(1) << n) - 1));
	CHECK_EQ(pack_set_get(UINT64_MAX)->bits, (UINT64_C(1) << n) - 1);
}

CHECK_MAIN()
