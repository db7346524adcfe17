#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sampled stacks against those of another sampler: perf record, which unwinds by DWARF. As root."""
import collections
import math
import re
import signal

import harness
import test_stacks

PERF = "/usr/bin/perf"
OK = 0
RATE = 999
FUNCTIONS = test_stacks.FUNCTIONS
SAMPLES = 10_000 if harness.LONG else 2_000
DURATION = 30 if harness.LONG else 6
POINTS = 0.02
# perf copies this much of a stack; those of the fixture are shorter.
STACK_BYTES = 2048
# Two samplers of n and m samples differ by chance: 5 standard deviations happen once in 10^6 runs.
DEVIATIONS = 5


def by_function(stacks):
    """How many of the stacks, each (functions, count), have each of the functions."""
    counts = collections.Counter()
    for functions, count in stacks:
        for name in set(FUNCTIONS) & set(functions):
            counts[name] += count
    return counts


def perf_stacks(text):
    """The stacks that perf script printed: functions from the innermost one."""
    for block in re.split(r"\n\s*\n", text.strip()):
        functions = re.findall(r"^\s+[0-9a-f]+ (\S+)", block, re.MULTILINE)
        if functions:
            yield functions, 1


class PerfRecord(harness.TestCase):
    def test_the_shares_of_functions_are_those_that_perf_record_finds(self):
        daemon = self.start(harness.Daemon)
        program = self.start(harness.Process, "shares",
                             [test_stacks.FIXTURES / "shares", test_stacks.FIXTURES / "libtensorflow_framework.so.2", 2])
        harness.wait_target(daemon, program.pid)
        data, folded = self.directory / "perf.data", self.directory / "stacks.folded"
        perf = self.start(harness.Process, "perf", [PERF, "record", "-e", "cpu-clock", "-F", RATE, "--call-graph", f"dwarf,{STACK_BYTES}", "-m", "16M",
                                                    "-o", data, "-p", program.pid])
        command = harness.ctl_capture(daemon, [program.pid], self.directory / "logdir", "--level", "1", f"--stacks={RATE}", "--folded", folded,
                                      duration=f"{DURATION}s")
        perf.send(signal.SIGINT)
        perf.wait(60)
        self.assertEqual(command.status, OK, command.stderr)
        script = harness.run(PERF, "script", "-i", data, "--no-inline", "-F", "ip,sym", timeout=300)
        self.assertEqual(script.status, 0, script.stderr)
        ours = by_function((frames, count) for _, frames, count in test_stacks.folded(folded))
        theirs = by_function(perf_stacks(script.stdout))
        n, m = ours.total(), theirs.total()
        print(f"     {n} samples, {m} of perf; " + ", ".join(f"{f}: {ours[f] / n:.2%}, {theirs[f] / m:.2%}" for f in FUNCTIONS))
        self.assertGreaterEqual(n, SAMPLES)
        self.assertGreaterEqual(m, SAMPLES)
        for name in FUNCTIONS:
            share = (ours[name] + theirs[name]) / (n + m)
            chance = DEVIATIONS * math.sqrt(share * (1 - share) * (1 / n + 1 / m))
            with self.subTest(function=name):
                self.assertLessEqual(abs(ours[name] / n - theirs[name] / m), POINTS if harness.LONG else max(POINTS, chance))


if __name__ == "__main__":
    harness.main()
