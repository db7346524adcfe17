# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's own libraries without their symbols: the same operations are seen, found by other means."""
import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import harness

LIBRARIES = ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2")
# Maps files as a program maps its libraries, and runs nothing of them.
MAP = ("import mmap, sys, time\n"
       "files = [open(f, 'rb') for f in sys.argv[1:]]\n"
       "maps = [mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC) for f in files]\n"
       "print('ready', flush=True)\n"
       "time.sleep(600)\n")


def wheel():
    return pathlib.Path(importlib.util.find_spec("tensorflow").submodule_search_locations[0])


def plan(daemon, pid):
    """{probe's symbol or class: probe} of the Control service."""
    sys.path.insert(0, str(harness.BUILD / "gen/python"))
    import control_pb2
    channel, future = harness.rpc(f"unix:{daemon.socket}", "Plan", control_pb2.PlanRequest(pids=[pid], level=3),
                                  control_pb2.PlanReply, service="tfprofd.Control")
    with channel:
        return future.result(60).targets[0]


class Stripped(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        """.stripped is a directory with stripped copies of both libraries."""
        super().setUpClass()
        cls.stripped = pathlib.Path(tempfile.mkdtemp(prefix="tfprofd-e2e-"))
        cls.addClassCleanup(shutil.rmtree, cls.stripped, ignore_errors=True)
        strips = [subprocess.Popen(["strip", "--strip-all", "-o", cls.stripped / name, wheel() / name]) for name in LIBRARIES]
        assert [strip.wait() for strip in strips] == [0, 0]

    def ops(self, daemon, server):
        """({name of an op: how often for each run}, warnings)"""
        address = harness.wait_target(daemon, server.pid)["address"]
        xspace = harness.response_xspace(harness.profile(address, duration_ms=800, level=3))
        runs = len(xspace.events("SessionRun"))
        self.assertGreater(runs, 100)
        if xspace.warnings:
            self.assert_on_overview(xspace, xspace.warnings)
        # Not what an op waited for, which differs from time to time.
        return ({name: len(times) / runs for name, times in xspace.ops().items()},
                xspace.warnings)

    def test_stripped_copy_gives_the_same_ops(self):
        daemon = self.start(harness.Daemon)
        whole = self.start(harness.NativeServer, ["layered"], self_load=1, http=False)
        expected, warnings = self.ops(daemon, whole)
        self.assertEqual(warnings, [])
        self.assertEqual(harness.ctl_targets(daemon)[whole.pid]["knowledge"], "exact")
        whole.stop()
        server = self.start(harness.NativeServer, ["layered"], self_load=1, http=False,
                            prefix=["env", f"LD_LIBRARY_PATH={self.stripped}"])
        self.assertIn(str(self.stripped), pathlib.Path(f"/proc/{server.pid}/maps").read_text())
        found, warnings = self.ops(daemon, server)
        self.assertEqual(set(found), set(expected))
        for name, count in expected.items():
            self.assertAlmostEqual(found[name], count, delta=0.05, msg=name)
        self.assertEqual(harness.ctl_targets(daemon)[server.pid]["knowledge"], "by RTTI")
        # What is missing is reported: executors have neither exported symbols nor virtual functions.
        self.assertTrue(any("executors" in w for w in warnings), warnings)
        self.assertFalse([w for w in warnings if re.search(r"\bops on CPU|ends of ops|session runs", w)])
        planned = plan(daemon, server.pid)
        by_class = [p for p in planned.probes if p.source == "RTTI" and p.planted]
        self.assertTrue([p for p in by_class if "ExecutorImpl" in p.symbol])

    def test_without_any_name_classes_lead_to_the_same_functions(self):
        daemon = self.start(harness.Daemon)
        named = self.start(harness.Process, "mapped", [harness.PYTHON, "-c", MAP, *(self.stripped / n for n in LIBRARIES)])
        named.wait_ready(lambda: named.line("ready"))
        expected = {p.offset: p for p in plan(daemon, named.pid).probes if p.planted}
        library = self.stripped / LIBRARIES[0]
        data = bytearray(library.read_bytes())
        # The names in .dynstr become others; nobody runs this file.
        renamed = 0
        for name in (b"_ZN10tensorflow16ThreadPoolDevice7Compute", b"_ZN10tensorflow16ThreadPoolDevice12ComputeAsync",
                     b"_ZN10tensorflow15OpKernelContextD", b"_ZN10tensorflow8OpKernelD"):
            at = data.find(name)
            while at >= 0:
                data[at] = ord("#")
                renamed += 1
                at = data.find(name)
        self.assertGreaterEqual(renamed, 4)
        nameless = self.directory / LIBRARIES[0]
        nameless.write_bytes(data)
        process = self.start(harness.Process, "mapped", [harness.PYTHON, "-c", MAP, nameless, self.stripped / LIBRARIES[1]])
        process.wait_ready(lambda: process.line("ready"))
        target = plan(daemon, process.pid)
        by_class = [p for p in target.probes if p.source == "RTTI"]
        for what in ("ThreadPoolDeviceE, slot 23", "ThreadPoolDeviceE, slot 24", "OpKernelContextE, slot 0", "OpKernelE, slot 0"):
            [probe] = [p for p in by_class if p.symbol.endswith(what)]
            self.assertTrue(probe.planted)
            self.assertEqual(expected[probe.offset].kind, probe.kind)
            self.assertEqual(expected[probe.offset].instruction, probe.instruction)
        # Of another release nobody knows what is at a slot.
        alone = self.start(harness.Process, "mapped", [harness.PYTHON, "-c", MAP, nameless])
        alone.wait_ready(lambda: alone.line("ready"))
        target = plan(daemon, alone.pid)
        self.assertFalse([p for p in target.probes if p.source == "RTTI" and p.planted])
        self.assertTrue([m for m in target.not_shown if "other releases" in m])


if __name__ == "__main__":
    harness.main()
