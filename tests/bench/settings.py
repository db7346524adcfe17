# SPDX-License-Identifier: Apache-2.0
"""How long the benches measure; the environment may override it."""
import os

# Of one measurement of throughput; rounds of what is for information; pairs, and repetitions of a time, that are held to a bar.
USUAL = {"SECONDS": 2, "ROUNDS": 4, "PAIRS": 40, "TIMES": 20}
SECONDS = float(os.environ.get("BENCH_SECONDS", USUAL["SECONDS"]))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", USUAL["ROUNDS"]))
PAIRS = int(os.environ.get("BENCH_PAIRS", USUAL["PAIRS"]))
TIMES = int(os.environ.get("BENCH_TIMES", USUAL["TIMES"]))
# parts to run, all unless named
ONLY = os.environ.get("BENCH_ONLY", "").split()
# What shortens all that has a length of its own.
SHARE = min(SECONDS / 2, 1)
# in a capture that is to be a large one
EVENTS = int(1_000_000 * SHARE)
# Whether a result may replace a stored one.
IS_WHOLE = SECONDS >= USUAL["SECONDS"] and ROUNDS >= USUAL["ROUNDS"] and PAIRS >= USUAL["PAIRS"] and TIMES >= USUAL["TIMES"]
