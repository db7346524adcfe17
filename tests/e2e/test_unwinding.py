#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sampled stacks of code without frame pointers, by a program that counts the CPU time of its functions. As root."""
import collections
import re
import struct

import harness
from test_stacks import folded, records

FIXTURES = harness.BUILD / "fixtures"
OK = 0
STACK, STACK_COPY = 17, 128
# Of the program's functions, as its own clock has them, and what called them, from the thread's first function on; None: some
# functions of the C library.
CALLERS = {
    "leaf": ("serve", "call", "first", "second"),
    "compare": ("serve", "call", "sort", None),
    "search": ("serve", "call"),
    "shallow": ("buried",),
    "handle": ("serve", "call", "interrupted", None),
}
POINTS = 0.02
SAMPLES = 10_000 if harness.LONG else 2_000
DURATION = "30s" if harness.LONG else "8s"
CUT = "[truncated]"


def is_library(frame):
    return not frame.startswith("[") and frame not in ("serve", "call", "first", "second", "sort", "interrupted", "buried", *CALLERS)


def has_callers(frames, name, callers):
    """Whether the frames, from the outermost on, are exactly those callers and the function."""
    at = frames.index(name)
    if name == "shallow":
        # Its caller's frame is larger than what is copied: what is beyond it is not guessed.
        return frames[:at] == [CUT, "buried"]
    begin = frames.index("serve")
    if not all(is_library(f) for f in frames[:begin]) or not begin:
        return False
    frames = frames[begin:at]
    if callers[-1] is not None:
        return frames == list(callers)
    known = len(callers) - 1
    return frames[:known] == list(callers[:known]) and len(frames) > known and all(is_library(f) for f in frames[known:])


class Unwinding(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon = self.start(harness.Daemon)
        self.program = self.start(harness.Process, "unframed", [FIXTURES / "unframed", FIXTURES / "libtensorflow_framework.so.2", 2])
        harness.wait_target(self.daemon, self.program.pid)
        self.folded, self.recording = self.directory / "stacks.folded", self.directory / "a.tfp"

    def capture(self, *arguments, duration="1s", level="1"):
        return harness.ctl_capture(self.daemon, [self.program.pid], self.directory / "logdir", "--level", level, *arguments, duration=duration)

    def test_functions_without_frame_pointers_have_their_shares_and_all_callers(self):
        command = self.capture("--stacks=999", "--folded", self.folded, duration=DURATION)
        self.assertEqual(command.status, OK, command.stderr)
        self.program.stop()
        counted = {name: int(ns) for name, ns in re.findall(r"^(\w+) (\d+)$", self.program.stdout(), re.MULTILINE)}
        self.assertEqual(set(counted), set(CALLERS), self.program.stderr())
        seen, wrong, others = collections.Counter(), collections.Counter(), 0
        for _, frames, count in folded(self.folded):
            inside = [name for name in CALLERS if name in frames]
            self.assertLessEqual(len(inside), 1, frames)
            if not inside:
                # Sorting itself, which the program counts with its comparisons.
                seen["compare"] += count * ("sort" in frames)
                others += count * ("sort" not in frames)
                continue
            seen[inside[0]] += count
            if not has_callers(frames, inside[0], CALLERS[inside[0]]):
                wrong[";".join(frames)] += count
        samples = seen.total()
        print(f"     {samples} samples, {wrong.total()} with other callers; "
              + ", ".join(f"{n}: {seen[n] / samples:.2%} of {counted[n] / sum(counted.values()):.2%}" for n in CALLERS))
        self.assertGreaterEqual(samples, SAMPLES)
        self.assertLess(wrong.total(), samples / 100, wrong.most_common(10))
        # Reading the clock.
        self.assertLess(others, samples / 100)
        for name in CALLERS:
            self.assertAlmostEqual(seen[name] / samples, counted[name] / sum(counted.values()), delta=POINTS)
        # The frame that is too large is stated.
        self.assertTrue(any(CUT in warning for warning in command.json["warnings"]), command.json["warnings"])

    def test_a_recording_has_addresses_and_no_bytes_of_stacks(self):
        command = self.capture("--stacks=999", "--record", self.recording)
        self.assertEqual(command.status, OK, command.stderr)
        self.assertEqual(records(self.recording, STACK_COPY), [])
        stacks = records(self.recording, STACK)
        self.assertTrue(stacks)
        for stack in stacks:
            n_user, n_kernel = struct.unpack_from("<HH", stack, 16)
            self.assertGreaterEqual(len(stack), 24 + 8 * (n_user + n_kernel))
            for frame in struct.unpack_from(f"<{n_user}Q", stack, 24):
                self.assertLess(frame, 1 << 47)


if __name__ == "__main__":
    harness.main()
