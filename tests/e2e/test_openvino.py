# SPDX-License-Identifier: Apache-2.0
"""Runs and operations of OpenVINO on CPUs, against its own profile of nodes and the time at which a server began and ended each run."""
import bisect
import json
import statistics

import harness
import test_onnxruntime
import test_requests

PACKAGES = harness.BUILD / "openvino"
# For tests/releases.
FIGURES, FIGURE_NAMES = test_onnxruntime.FIGURES, test_onnxruntime.FIGURE_NAMES
WINDOW_S = 3
# What began or ended so near to an edge of the window may be missing on one of the two sides.
EDGE_NS = 20_000_000
RUN = "InferRequest::infer"
# The profile has means in whole microseconds.
ROUNDING_US = 0.5
# The profile's clock starts before the probe's trap, which takes longer on a busy machine.
SHORT, TIMES = 0.05, 4


def captured(xspace):
    """The runs, as (start, end, operations, thread), these as (start, duration, name)."""
    begin, found = xspace.plane_stats["Task Environment"]["profile_start_time"], []
    for name, line in xspace.lines().items():
        operations = test_onnxruntime.operations(xspace, line)
        starts = [op[0] for op in operations]
        for e in (e for e in line if e.name == RUN and "cut" not in e.stats):
            start, end = (begin + ps // 1000 for ps in (e.start_ps, e.start_ps + e.duration_ps))
            found.append((start, end, operations[bisect.bisect_left(starts, start):bisect.bisect_left(starts, end)], name.rpartition("/")[2]))
    return sorted(found)


def means(truth, begin, end):
    """Between the first and the last profile in the window: the range of the runs' numbers, {node: mean time in us}, the error of these means."""
    first, *_, last = (p for p in truth["profiles"] if begin <= p[0] <= end)
    n = last[1] - first[1]
    nodes = {name: (after * last[1] - before * first[1]) / n for (name, _, before), (_, _, after) in zip(first[2], last[2])}
    # Those of the warm-up are not in truth["runs"].
    return range(first[1] - 1, last[1] - 1), nodes, ROUNDING_US * (first[1] + last[1]) / n


class OpenVino(harness.TestCase):
    packages = PACKAGES

    def capture(self):
        daemon, path = self.start(harness.Daemon), self.directory / "truth.json"
        server = self.start(harness.Process, "openvino", [harness.PYTHON, harness.SERVERS / "openvino_runs.py", path],
                            env={"PYTHONPATH": str(self.packages)})
        server.wait_ready(lambda: server.line("ready"))
        target = harness.wait_target(daemon, server.pid)
        self.assertEqual(target["runtime"], "OpenVINO")
        (info,) = self.packages.glob("openvino-*.dist-info")
        self.assertEqual(f"openvino-{target['version']}.dist-info", info.name)
        harness.read_files(daemon, server)
        xspace = harness.response_xspace(harness.profile(target["address"], duration_ms=WINDOW_S * 1000, level=2))
        self.assertEqual(server.stop(), 0, server.stderr()[-1000:])
        self.assertEqual(xspace.errors, [])
        self.assertFalse([w for w in xspace.warnings if "not shown" in w or "lost" in w.lower() or "names" in w], xspace.warnings)
        return xspace, json.loads(path.read_text())

    def compare(self, xspace, truths):
        """Checks that each call in the window is a run with the operations of its profile. Returns their names, and the share of the profile's time that
        is missing here."""
        begin, end = (xspace.plane_stats["Task Environment"][name] + sign * EDGE_NS
                      for name, sign in (("profile_start_time", 1), ("profile_stop_time", -1)))
        all_runs = captured(xspace)
        n_runs = n_operations = wrong = outside = short = total = 0
        names = set()
        for truth in truths:
            calls = [call for call in truth["runs"] if begin <= call[0] and call[1] <= end]
            runs = [run for run in all_runs if calls[0][0] <= run[0] <= calls[-1][1] and any(op[2].startswith(truth["model"]) for op in run[2])]
            self.assertEqual(len(runs), len(calls), truth["model"])
            self.assertEqual(truth["model"] == "layer", {run[3] for run in runs} == {str(truth["thread"])})
            outside += sum(not call[0] <= run[0] <= run[1] <= call[1] for run, call in zip(runs, calls))
            expected = [f"{test_onnxruntime.shown(name)}:{kind}" for name, kind, _ in truth["profiles"][0][2]]
            different = [run for run in runs if [op[2] for op in run[2]] != expected]
            self.assertEqual([([op[2] for op in run[2]], expected) for run in different[:1]], [])
            wrong += len(different)
            numbers, nodes, error = means(truth, begin, end)
            first = truth["runs"].index(calls[0])
            for at, its_own in enumerate(nodes.values()):
                own = statistics.mean(runs[i - first][2][at][1] / 1000 for i in numbers)
                short += max(0, its_own - own - error)
                total += its_own
            n_runs, n_operations, names = n_runs + len(runs), n_operations + sum(len(run[2]) for run in runs), names | set(expected)
        print(f"     {n_runs} runs, {n_operations} operations of {len(names)} names, {wrong} runs wrong, {outside} outside of their calls; "
              f"operations that are shorter on average than in the profile lack {short / total:.1%} of all its time")
        FIGURES.update(runs=n_runs, operations=n_operations, wrong_runs=wrong)
        self.assertGreater(n_runs, 200)
        self.assertEqual((wrong, outside), (0, 0))
        return names, short / total

    def test_runs_and_their_operations_are_those_of_its_own_profile(self):
        for _ in range(TIMES):
            xspace, truths = self.capture()
            names, short = self.compare(xspace, truths)
            if short <= SHORT:
                break
        # An operation ends where the next one begins: its time is an upper bound.
        self.assertLessEqual(short, SHORT)
        self.assertTrue(any("Operations end where the next one" in w for w in xspace.warnings), xspace.warnings)
        path = self.directory / "shown.xplane.pb"
        path.write_bytes(xspace.proto.SerializeToString())
        table = next(iter(harness.convert(path, "framework_op_stats")))["rows"]
        last = lambda name: name.rpartition("/")[2]
        self.assertLessEqual(set(map(last, names)), {last(f"{row['c'][3]['v']}:{row['c'][2]['v']}") for row in table})


class Harmless(test_onnxruntime.Harmless):
    packages = PACKAGES
    argv = (harness.PYTHON, harness.SERVERS / "openvino_answers.py")


class Served(test_onnxruntime.Compared):
    packages = PACKAGES

    def serve(self, way, *loads):
        truth = self.directory / "truth"
        server = self.start(harness.Server, "openvino_http_server", [harness.PYTHON, harness.SERVERS / "openvino_http_server.py", way, truth],
                            ("env", f"PYTHONPATH={self.packages}"), False, False)
        self.run_cases(server, truth, [test_requests.Case(way, True, "half_plus_two", clients, rate, True, right=1) for clients, rate in loads], exact=True)

    def test_runs_on_the_thread_of_the_server_have_their_requests(self):
        self.serve("infer", (8, 200), (64, 0))

    def test_runs_on_a_thread_of_the_runtime_have_their_requests(self):
        self.serve("start_async", (1, 100), (8, 200), (64, 0))

    def test_runs_on_a_thread_for_each_connection_have_their_requests(self):
        self.serve("each", (8, 200), *self.in_long((64, 0)))


if __name__ == "__main__":
    harness.main()
