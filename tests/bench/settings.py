# SPDX-License-Identifier: Apache-2.0
"""How long the benches measure; the environment may override it."""
import os

# of one measurement of throughput
SECONDS = float(os.environ.get("BENCH_SECONDS", 2))
# of every comparison
ROUNDS = int(os.environ.get("BENCH_ROUNDS", 4))
# parts to run, all unless named
ONLY = os.environ.get("BENCH_ONLY", "").split()
# in a capture that is to be a large one
EVENTS = int(1_000_000 * min(SECONDS / 2, 1))
