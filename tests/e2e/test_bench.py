#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The statistics of `make bench`, and that its tables come from what was measured. Nothing is measured here."""
import json
import os
import random
import subprocess
import sys
import tempfile
import pathlib
from unittest import mock

import harness

BENCH = harness.ROOT / "tests/bench"
sys.path.insert(0, str(BENCH))
import interval
import result
import stored
import tables


class Statistics(harness.TestCase):
    def test_the_quantiles_of_students_distribution(self):
        # From printed tables of it.
        for degrees, quantile in {1: 12.7062, 2: 4.30265, 3: 3.18245, 4: 2.77645, 9: 2.26216, 19: 2.09302, 39: 2.02269, 120: 1.97993}.items():
            self.assertAlmostEqual(interval.t_quantile(degrees), quantile, delta=1e-3 * quantile)

    def test_the_interval_has_the_mean_in_19_of_20_cases(self):
        chance = random.Random(1)
        for n in (4, 20, 40):
            held = 0
            for _ in range(2000):
                low, high = interval.of_mean([chance.gauss(3, 2) for _ in range(n)])
                held += low <= 3 <= high
            self.assertAlmostEqual(held / 2000, 0.95, delta=0.02)
        self.assertEqual(interval.of_mean([1]), (float("-inf"), float("inf")))
        self.assertEqual(interval.of_mean([2, 2, 2]), (2, 2))

    def test_a_machine_whose_speed_drifts_favors_neither_of_a_pair(self):
        clock = [0]

        def measure(with_it):
            clock[0] += 1
            return 100 + clock[0] + (10 if with_it else 0)
        on, off = interval.take_pairs(40, measure)
        self.assertEqual((len(on), len(off)), (40, 40))
        self.assertAlmostEqual(sum(a - b for a, b in zip(on, off)) / 40, 10, delta=1e-9)
        self.assertEqual(interval.more([110, 210], [100, 200]), [100 * (110 / 100 - 1), 100 * (210 / 200 - 1)])
        self.assertEqual(interval.less([90], [100]), [100 * (1 - 90 / 100)])
        self.assertRaises(ValueError, interval.less, [1, 2], [1])

    def test_a_bar_is_met_only_when_the_whole_interval_of_enough_samples_is_below(self):
        near = [0.9, 1.0] * 20
        self.assertTrue(result.Result("a", "%", near, 1, interval=40).met)
        self.assertFalse(result.Result("a", "%", near, 0.96, interval=40).met, "the mean is below, the end is not")
        self.assertFalse(result.Result("a", "%", near[:39], 1, interval=40).met)
        self.assertTrue(result.Result("a", "%", near, 0.9, at_least=True, interval=40).met)
        self.assertFalse(result.Result("a", "%", near, 0.95, at_least=True, interval=40).met)
        self.assertIsNone(result.Result("a", "%", near, interval=40).met)
        self.assertTrue(result.Result("a", "", [0], 0).met)


class Tables(harness.TestCase):
    def test_they_are_those_of_the_stored_results(self):
        command = harness.run(sys.executable, BENCH / "tables.py")
        self.assertEqual((command.status, command.stdout, command.stderr), (0, "", ""))

    def test_a_figure_that_was_edited_by_hand_is_found(self):
        row = stored.row(result.Result("what it costs", "us", [1.04, 1.05] * 20, 1.5, interval=40))
        parts = {"part": {"date": "2026-01-01", "kernel": "6.18", "cpu": "a CPU", "cpus": 2, "title": "A part", "took_s": 61, "results": [row]}}
        for name, make in tables.FILES.items():
            text = tables.replaced((harness.ROOT / name).read_text(), make(parts))
            # The mean to four digits, then to three.
            self.assertRegex(text, r"\| A part \| what it costs: 1\.0[45] µs \(≤ 1\.5 µs\) \|  \|" if name == "README.md" else
                             r"\| what it costs \| 1\.0[45] µs \| 1\.04 to 1\.05, 40 samples \| ≤ 1\.5 µs \| met \|")
            self.assertEqual(tables.replaced(text, make(parts)), text)
            edited = text.replace("1.04", "0.99").replace("1.05", "0.99")
            self.assertNotEqual(tables.replaced(edited, make(parts)), edited)
        self.assertRaises(ValueError, tables.replaced, "no markers", "")

    def test_a_part_replaces_its_own_result_only(self):
        with tempfile.TemporaryDirectory() as directory, mock.patch.object(stored, "FILE", pathlib.Path(directory) / "results.json"):
            for part, took in (("b", 1), ("a", 2), ("b", 3)):
                stored.put(part, {**stored.machine(), "took_s": took, "results": []})
            self.assertEqual({part: found["took_s"] for part, found in stored.read().items()}, {"a": 2, "b": 3})
            self.assertEqual(list(json.loads(stored.FILE.read_text())), ["a", "b"])
            self.assertEqual(stored.read()["a"]["kernel"], os.uname().release)

    def test_every_part_can_be_named_and_has_its_minutes(self):
        listed = subprocess.run([sys.executable, BENCH / "run.py", "--list"], capture_output=True, text=True, check=True).stdout
        self.assertRegex(listed, r"(?m)^requests +\d+ min  What seeing requests costs$")
        self.assertEqual(harness.run(sys.executable, BENCH / "run.py", env={**os.environ, "BENCH_ONLY": "none"}).status, 1)


if __name__ == "__main__":
    harness.main()
