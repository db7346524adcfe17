# SPDX-License-Identifier: Apache-2.0
"""Runs and operations of ONNX Runtime, against its own profiler."""
import bisect
import json
import pathlib
import tempfile

import harness

LAYERS = 10
WINDOW_S = 2
# The profiler reads its clock before it notifies the providers, and after.
APART_NS = 2_000_000


class Profile:
    """What the runtime's profiler wrote: runs as (start, end, names of their operations), in Unix nanoseconds."""

    def __init__(self, start_ns, path):
        events = [e for e in json.loads(pathlib.Path(path).read_text()) if e.get("dur") is not None]
        times = lambda e: (start_ns + e["ts"] * 1000, start_ns + (e["ts"] + e["dur"]) * 1000)
        ops = sorted((times(e)[0], e["name"].removesuffix("_kernel_time") + ":" + e["args"]["op_name"])
                     for e in events if e["cat"] == "Node" and e["name"].endswith("_kernel_time"))
        starts = [start for start, _ in ops]
        self.runs = []
        for start, end in sorted(times(e) for e in events if e["name"] == "model_run"):
            inner = ops[bisect.bisect_left(starts, start):bisect.bisect_right(starts, end)]
            self.runs.append((start, end, [name for _, name in inner]))


class OnnxRuntime(harness.TestCase):
    def capture(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        daemon = self.start(harness.Daemon)
        server = self.start(harness.Process, "onnx", [harness.PYTHON, harness.ROOT / "tests/servers/onnx_runs.py", LAYERS,
                                                      f"{directory.name}/profile"])
        server.wait_ready(lambda: server.line("ready"))
        target = harness.wait_target(daemon, server.pid)
        self.assertEqual(target["runtime"], "ONNX Runtime")
        xspace = harness.response_xspace(harness.profile(target["address"], duration_ms=WINDOW_S * 1000, level=2))
        server.stop()
        start_ns, path = server.line(r"(\d+) (\S+)").groups()
        return xspace, Profile(int(start_ns), path)

    def test_runs_and_their_operations_are_those_of_its_own_profiler(self):
        xspace, profile = self.capture()
        begin, end = (xspace.plane_stats["Task Environment"][name] for name in ("profile_start_time", "profile_stop_time"))
        to_ns = lambda ps: begin + ps // 1000
        ops = sorted((to_ns(e.start_ps), name) for name, events in xspace.op_events().items() for e in events)
        starts = [start for start, _ in ops]
        runs = sorted((to_ns(e.start_ps), to_ns(e.start_ps + e.duration_ps)) for e in xspace.events("model_run")
                      if "cut" not in e.stats)
        self.assertFalse([e for e in xspace.events("model_run") if "end" in e.stats])
        # Each of its runs that lies in the window is one here, and with the same operations.
        own = [run for run in profile.runs if begin <= run[0] and run[1] <= end]
        wrong = 0
        self.assertEqual(len(runs), len(own))
        for (start, stop), (own_start, own_stop, names) in zip(runs, own):
            self.assertLessEqual(own_start, start)
            self.assertLess(start, own_start + APART_NS)
            # The profiler counts whole microseconds.
            self.assertLess(stop, own_stop + APART_NS)
            found = [name for _, name in ops[bisect.bisect_left(starts, start):bisect.bisect_left(starts, stop)]]
            wrong += found != names
        print(f"     {len(runs)} runs, {sum(len(names) for *_, names in own)} operations, {wrong} runs wrong")
        self.assertGreater(len(runs), 100)
        self.assertEqual(len(own[0][2]), 2 * LAYERS)
        self.assertEqual(wrong, 0)

    def test_a_warning_reports_where_operations_end(self):
        xspace, _ = self.capture()
        self.assertTrue(any("Operations end where the next one" in w for w in xspace.warnings), xspace.warnings)
        self.assertFalse([w for w in xspace.warnings if "not shown" in w or "lost" in w.lower()])


if __name__ == "__main__":
    harness.main()
