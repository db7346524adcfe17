#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of TensorFlow with several of its releases. As root."""
import re
import sys

import page
import harness
import test_reference
import test_requests

TEXT = """The wheels are `tensorflow-cpu` for CPython 3.11, unmodified. Ops, and allocations of a server in C, are compared with what the runtime's own
profiler saw in the same window: names, counts and durations. The error is the largest of the medians of a server's durations. The servers are one in C on the wheel's
`libtensorflow_cc.so.2` (session runs) and one in Python (function runs); their requests, batches and padding are compared with the logs of clients and servers.
What a release lacks is what its captures report as not shown. With 2.12, the server in Python has no batches: its module ends with a segmentation fault in such a
model, also without a profiler.

| release | ops compared | missing or extra | error | allocations compared | missing | requests compared | with exactly their run | inferred, right | requests wrong | batches | what it lacks |
|---|---|---|---|---|---|---|---|---|---|---|---|
"""
NAMES = ("operations", "disagreeing", "error", "allocations", "missing_allocations", "requests", "exact", "inferred", "wrong", "batches", "lacks")
FIGURES = test_reference.FIGURES
# With each release what it needs in other versions than tests/requirements.txt has.
OLD = ("numpy==1.26.4", "protobuf==4.25.9", "wrapt==1.14.2")
RELEASES = {"2.12.1": ("numpy==1.23.5", *OLD[1:], "typing_extensions==4.5.0"), "2.15.1": (*OLD, "ml_dtypes==0.3.2"), "2.16.2": (*OLD, "ml_dtypes==0.3.2"),
            "2.18.1": ("numpy==2.0.2", "protobuf==5.29.6", "ml_dtypes==0.4.1"), "2.20.0": (), "2.21.0": ()}

# Its Python module ends with a segmentation fault in such a batched model, also without a profiler.
CRASHES = ("tensorflow-cpu-2.12.1",)


class Release:
    """A server of that release, and what its captures lack."""
    packages = None

    def setUp(self):
        super().setUp()
        self.prefix = ["env", f"LD_LIBRARY_PATH={self.packages / 'tensorflow'}", f"PYTHONPATH={self.packages}"]

    @staticmethod
    def note_lacks(warnings):
        """Returns other warnings."""
        found = {w: re.match(r"Process \d+: not shown: (.*) \((?:no such function in this build|this release does it in another way)\)\.", w) for w in warnings}
        lacks = {m[1] for m in found.values() if m} | set(FIGURES["lacks"].split("; ") if FIGURES["lacks"] else []) - {"nothing"}
        FIGURES["lacks"] = "; ".join(sorted(lacks)) or "nothing"
        return [w for w, m in found.items() if not m]


class Operations(Release, test_reference.Reference):
    def native(self, prefix=("env",), **how):
        return super().native(prefix=[*self.prefix, *prefix[1:]], **how)

    def python(self):
        return self.start(harness.HttpServer, ["layered"], prefix=self.prefix, profiler=True)

    def check_complete(self, ours):
        self.assertEqual(ours.errors + self.note_lacks(ours.warnings), [])

    def compare_allocations(self, *captured):
        if "allocations of the BFC allocator" not in (FIGURES["lacks"] or "") or "onednn" not in self.id():
            super().compare_allocations(*captured)

    def compare_ops(self, *captured):
        super().compare_ops(*captured)
        FIGURES["disagreeing"] = FIGURES["missing"] + FIGURES["extra"]
        FIGURES["error"] = f"{FIGURES['error_ns']} ns"


class Served(Release, test_requests.Comparison):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.table = []

    def judge(self, case, figures, exact):
        FIGURES.update(requests=figures.whole, exact=figures.right["exact"], inferred=figures.right["inferred"], wrong=sum(figures.wrong.values()),
                       batches=figures.batches)
        return super().judge(case, figures, exact)

    def cases(self, label, python):
        return [test_requests.Case(label, True, model, clients, rate, python, test_requests.INFERRED_RIGHT)
                for model in (("half_plus_two",) if python and self.packages.name in CRASHES else ("half_plus_two", "batched")) for clients, rate in ((8, 400 // (1 + python)), (64, 0))]

    def test_runs_of_a_server_in_c_have_their_requests(self):
        truth = self.directory / "truth"
        server = self.start(harness.NativeServer, ["half_plus_two", "batched"], prefix=self.prefix, arguments=["--truth", truth])
        self.run_cases(server, truth, self.cases("native REST", False))

    def test_runs_of_a_server_in_python_have_their_requests(self):
        truth = self.directory / "truth"
        server = self.start(harness.HttpServer, ["half_plus_two", "batched"], prefix=self.prefix, arguments=["--truth", truth])
        self.run_cases(server, truth, self.cases("Python HTTP/1.1", True))


if __name__ == "__main__":
    sys.exit(page.main("TensorFlow", "tensorflow-cpu", "tensorflow", sys.argv[1:] or RELEASES, (Operations, Served), FIGURES, NAMES, TEXT, RELEASES))
