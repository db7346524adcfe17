# SPDX-License-Identifier: Apache-2.0
"""Runs and operations of JAX on CPUs, against its own profiler."""
import bisect
import collections
import statistics

import harness
import test_onnxruntime
import test_requests

PACKAGES = harness.BUILD / "jax"
CPU = "JAX_PLATFORMS=cpu"
# For tests/releases.
FIGURES, FIGURE_NAMES = test_onnxruntime.FIGURES, test_onnxruntime.FIGURE_NAMES
WINDOW_S = 2
# What began or ended so near to an edge of the window may be missing on one of the two sides.
EDGE_NS = 20_000_000
RUN = "ThunkExecutor::Execute"
# Between reading the clock there and here.
CLOCK_NS = 1000
# From our beginning of an operation to the profiler's, unless the thread loses its CPU between them.
NEAR_NS = 20_000


class Run:
    """One of either side: start and end in Unix nanoseconds, and its operations as (start, end, name), in the order of their starts."""

    def __init__(self, start, end, operations):
        self.start, self.end, self.operations = start, end, operations


class Jax(harness.TestCase):
    packages = PACKAGES

    def capture(self):
        daemon = self.start(harness.Daemon)
        server = self.start(harness.Process, "jax", ["env", CPU, harness.PYTHON, harness.SERVERS / "jax_runs.py", self.directory / "profile"],
                            env={"PYTHONPATH": str(self.packages)})
        server.wait_ready(lambda: server.line("ready"))
        target = harness.wait_target(daemon, server.pid)
        # Some releases load TensorFlow, if there is one, for their profiler.
        self.assertIn("JAX", target["runtime"].split(", "))
        harness.read_files(daemon, server)
        xspace = harness.response_xspace(harness.profile(target["address"], duration_ms=WINDOW_S * 1000, level=2))
        self.assertEqual(server.stop(), 0, server.stderr()[-1000:])
        self.assertEqual(xspace.errors, [])
        self.assertFalse([w for w in xspace.warnings if "not shown" in w or "lost" in w.lower() or "names" in w], xspace.warnings)
        (path,) = (self.directory / "profile").glob("plugins/profile/*/*.xplane.pb")
        return xspace, harness.XSpace(path)

    def times(self, xspace):
        first = xspace.plane_stats["Task Environment"]["profile_start_time"]
        return lambda e: (first + e.start_ps // 1000, first + (e.start_ps + e.duration_ps) // 1000)

    def ours(self, xspace):
        """The runs of each thread, as far as they have operations."""
        times, found = self.times(xspace), []
        for line in xspace.lines().values():
            runs = []
            operations = sorted((*times(e), e.name) for e in line if harness.OP_NAME.fullmatch(e.name) and "::" not in e.name)
            starts = [op[0] for op in operations]
            for start, end in sorted(times(e) for e in line if e.name == RUN and "cut" not in e.stats):
                runs.append(Run(start, end, operations[bisect.bisect_left(starts, start):bisect.bisect_left(starts, end)]))
            found.append([run for run in runs if run.operations])
        return [runs for runs in found if runs]

    def theirs(self, xspace):
        """Likewise. The profile has a number of the run with each operation."""
        times, found = self.times(xspace), []
        for line in xspace.lines().values():
            runs = collections.defaultdict(list)
            for e in line:
                if "hlo_op" in e.stats:
                    runs[e.stats["run_id"]].append((*times(e), e.name))
            found.append([Run(min(op[0] for op in ops), max(op[1] for op in ops), sorted(ops)) for ops in runs.values()])
        return [runs for runs in found if runs]

    def pairs(self, ours, theirs, begin, end):
        """(a run of ours, one of theirs) that are the same: it is in the last of ours that had begun. Its profile has no numbers of threads: a
        thread is the one on which the most runs begin at the same times."""
        distance = lambda mine, run: abs(mine.operations[0][0] - run.start)
        last = lambda thread, run: thread[max(0, bisect.bisect_right(thread, run.start + CLOCK_NS, key=lambda mine: mine.start) - 1)]
        found = []
        for runs in theirs:
            runs = [run for run in runs if begin <= run.start and run.end <= end]
            each = [[(last(thread, run), run) for run in runs] for thread in ours]
            found += max(each, key=lambda pairs: sum(distance(*pair) < NEAR_NS for pair in pairs))
        return found

    def test_runs_and_their_operations_are_those_of_its_own_profiler(self):
        xspace, profile = self.capture()
        begin, end = (xspace.plane_stats["Task Environment"][name] + sign * EDGE_NS
                      for name, sign in (("profile_start_time", 1), ("profile_stop_time", -1)))
        pairs = self.pairs(self.ours(xspace), self.theirs(profile), begin, end)
        self.assertGreater(len(pairs), 100)
        self.assertEqual(len({id(mine) for mine, _ in pairs}), len(pairs))
        outside = sum(not mine.start - CLOCK_NS <= run.start <= run.end <= mine.end + CLOCK_NS for mine, run in pairs)
        # A name in TensorBoard's tables has a type, which is the name here.
        wrong = [(mine, run) for mine, run in pairs if [op[2].rpartition(":")[0].split("/")[-1] for op in mine.operations] !=
                 [test_onnxruntime.shown(op[2]).lstrip(".") for op in run.operations]]
        both = [pair for mine, run in pairs if (mine, run) not in wrong for pair in zip(mine.operations, run.operations)]
        early = sum(mine[1] < its_own[1] - CLOCK_NS for mine, its_own in both)
        names = {its_own[2] for _, its_own in both}
        print(f"     {len(pairs)} runs, {len(both)} operations of {len(names)} names, {len(wrong)} runs wrong, {outside} not around the profiler's; an "
              f"operation is longer than in the profiler by {statistics.median(m[1] - m[0] - (t[1] - t[0]) for m, t in both):.0f} ns (median), {early} end "
              "before they do there")
        FIGURES.update(runs=len(pairs), operations=len(both), wrong_runs=len(wrong))
        self.assertEqual([([op[2] for op in mine.operations], [op[2] for op in run.operations]) for mine, run in wrong[:1]], [])
        self.assertEqual((outside, early), (0, 0))
        self.assertTrue({"while", "sort", "tanh_add_fusion", "copy"} <= {name.partition(".")[0] for name in names}, names)
        self.assertTrue(any("Operations end where the next one" in w for w in xspace.warnings), xspace.warnings)
        path = self.directory / "shown.xplane.pb"
        path.write_bytes(xspace.proto.SerializeToString())
        table = next(iter(harness.convert(path, "framework_op_stats")))["rows"]
        self.assertLessEqual(len(names), len(table))


class Harmless(test_onnxruntime.Harmless):
    packages = PACKAGES
    argv = ("env", CPU, harness.PYTHON, harness.SERVERS / "jax_answers.py")


class Served(test_onnxruntime.Compared):
    packages = PACKAGES

    def serve(self, way, *loads):
        truth = self.directory / "truth"
        server = self.start(harness.Server, "jax_http_server", [harness.PYTHON, harness.SERVERS / "jax_http_server.py", way, truth],
                            ("env", CPU, f"PYTHONPATH={self.packages}"), False, False)
        self.run_cases(server, truth, [test_requests.Case(way, True, "half_plus_two", clients, rate, True, right=1) for clients, rate in loads], exact=True)

    def test_runs_on_the_thread_of_the_server_have_their_requests(self):
        self.serve("caller", (1, 100), (8, 200), (64, 0))

    def test_runs_on_the_pool_have_their_requests(self):
        # With more than 32 clients JAX waits for its pool while it holds the GIL, which the programs' callbacks need.
        self.serve("pool", (8, 200), (24, 0))


if __name__ == "__main__":
    harness.main()
