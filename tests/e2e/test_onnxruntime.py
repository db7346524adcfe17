# SPDX-License-Identifier: Apache-2.0
"""Runs and operations of ONNX Runtime, against its own profiler."""
import bisect
import collections
import json
import pathlib
import re
import statistics
import sys

import harness
import test_requests
import test_sources

sys.path.insert(0, str(harness.ROOT / "tests/servers"))
import onnx_model  # noqa: E402

LAYERS = 10
WINDOW_S = 2
# What began or ended so near to an edge of the window may be missing on one of the two sides.
EDGE_NS = 10_000_000
# The profiler counts whole microseconds, and reads its clock before we do or after.
ROUNDING_NS = 3_000
RUNS = ("model_run",)
# What the tests have compared so far, for tests/releases.
FIGURE_NAMES = ("runs", "operations", "wrong_runs", "requests", "right_requests", "wrong_requests", "answers", "different")
FIGURES = collections.Counter()
CYCLES = 200 if harness.LONG else 12


def shown(name):
    """A node's name as TensorBoard's pages read it."""
    return re.sub(r"[^\w.\\/>-]", "_", name if re.match(r"[A-Za-z0-9.]", name) else "." + name)


class Profile:
    """What the runtime's profiler wrote of a session: its runs, as (start, end, operations), in Unix nanoseconds; operations are
    (start, duration, name, provider) in the order in which they ended."""

    def __init__(self, start_ns, path):
        events = [e for e in json.loads(pathlib.Path(path).read_text()) if e.get("dur") is not None]
        times = lambda e: (start_ns + e["ts"] * 1000, start_ns + (e["ts"] + e["dur"]) * 1000)
        nodes = [e for e in events if e["cat"] == "Node" and e["name"].endswith("_kernel_time")]
        ops = sorted(((times(e)[0], e["dur"] * 1000, shown(e["name"].removesuffix("_kernel_time")) + ":" + e["args"]["op_name"], e["args"]["provider"])
                      for e in nodes), key=lambda op: op[0])
        starts = [op[0] for op in ops]
        self.runs = [(start, end, ops[bisect.bisect_left(starts, start):bisect.bisect_right(starts, end)])
                     for start, end in sorted(times(e) for e in events if e["name"] == "model_run")]


def operations(xspace, line):
    """Those of a line, as (start, duration, name) in their order."""
    begin = xspace.plane_stats["Task Environment"]["profile_start_time"]
    return sorted((begin + e.start_ps // 1000, e.duration_ps // 1000, e.name) for e in line if re.fullmatch(r"[^:]*:\w+", e.name))


class Thread:
    """What was captured of a thread: its runs as (start, end, operations), these as (start, duration, name)."""

    def __init__(self, xspace, number):
        begin = xspace.plane_stats["Task Environment"]["profile_start_time"]
        to_ns = lambda ps: begin + ps // 1000
        (line,) = [events for name, events in xspace.lines().items() if name.endswith(f"/{number}")] or [[]]
        runs = sorted((e for e in line if e.name in RUNS), key=lambda e: e.start_ps)
        self.unended = sum("end" in e.stats for e in runs)
        ops = operations(xspace, line)
        starts = [op[0] for op in ops]
        self.runs = []
        for start, end in ((to_ns(e.start_ps), to_ns(e.start_ps + e.duration_ps)) for e in runs if "cut" not in e.stats):
            self.runs.append((start, end, ops[bisect.bisect_left(starts, start):bisect.bisect_left(starts, end)]))


class OnnxRuntime(harness.TestCase):
    packages = None  # a directory with another release

    def capture(self, *mode):
        daemon = self.start(harness.Daemon)
        server = self.start(harness.Process, "onnx", [harness.PYTHON, harness.ROOT / "tests/servers/onnx_runs.py", LAYERS,
                                                      self.directory / "profile", *mode],
                            env=self.packages and {"PYTHONPATH": str(self.packages)})
        server.wait_ready(lambda: server.line("ready"))
        target = harness.wait_target(daemon, server.pid)
        self.assertEqual(target["runtime"], "ONNX Runtime")
        (info,) = (self.packages or test_sources.package("onnxruntime").parent).glob("onnxruntime-*.dist-info")
        self.assertEqual(f"onnxruntime-{target['version']}.dist-info", info.name)
        harness.read_files(daemon, server)
        xspace = harness.response_xspace(harness.profile(target["address"], duration_ms=WINDOW_S * 1000, level=2))
        server.stop()
        sessions = collections.defaultdict(list)
        for thread, start_ns, path in re.findall(r"^session (\d+) (\d+) (\S+)$", server.stdout(), re.MULTILINE):
            sessions[int(thread)].append(Profile(int(start_ns), path))
        self.assertFalse([w for w in xspace.warnings if "not shown" in w or "lost" in w.lower()], xspace.warnings)
        self.assertFalse([e for e in xspace.events() if "could not be read" in e.name])
        return xspace, sessions

    def compare(self, xspace, sessions):
        """Each of the profiler's runs that lies in the window is one here, and with the same operations. Returns pairs of runs."""
        begin, end = (xspace.plane_stats["Task Environment"][name] for name in ("profile_start_time", "profile_stop_time"))
        pairs, wrong = [], 0
        for number, profiles in sessions.items():
            thread = Thread(xspace, number)
            self.assertEqual(thread.unended, 0)
            own = sorted((run for profile in profiles for run in profile.runs if begin + EDGE_NS <= run[0] and run[1] <= end - EDGE_NS),
                         key=lambda run: run[0])
            # The profiler's run is around ours: it reads its clock before it notifies the providers, and after.
            runs = [run for run in thread.runs if own and own[0][0] <= run[0] <= own[-1][1]]
            self.assertEqual(len(runs), len(own))
            for run, its_own in zip(runs, own):
                self.assertLessEqual(its_own[0] - ROUNDING_NS, run[0])
                self.assertLessEqual(run[1], its_own[1] + ROUNDING_NS)
                wrong += [op[2] for op in run[2]] != [op[2] for op in its_own[2]]
                pairs.append((run, its_own))
        print(f"     {len(pairs)} runs, {sum(len(own[2]) for _, own in pairs)} operations "
              f"of {len({op[2] for _, own in pairs for op in own[2]})} names, {wrong} runs wrong")
        FIGURES.update(runs=len(pairs), operations=sum(len(own[2]) for _, own in pairs), wrong_runs=wrong)
        self.assertEqual(wrong, 0)
        return pairs

    def test_runs_and_their_operations_are_those_of_its_own_profiler(self):
        xspace, sessions = self.capture()
        pairs = self.compare(xspace, sessions)
        self.assertGreater(len(pairs), 100)
        names = {op[2] for _, own in pairs for op in own[2]}
        # One that the runtime made of two, ones without a name, one in a graph of another one.
        self.assertLessEqual({"./layer_0/Tanh:Tanh", "fused_/MatMulAddFusion:FusedGemm", "Tanh_4:Tanh", "Sin_1:Sin", "body/Tanh:Tanh", "loop:Loop"}, names)
        path = self.directory / "shown.xplane.pb"
        path.write_bytes(xspace.proto.SerializeToString())
        table = next(iter(harness.convert(path, "framework_op_stats")))["rows"]
        in_table = {f"{row['c'][3]['v']}:{row['c'][2]['v']}" for row in table}
        self.assertLessEqual(names, in_table)
        # An operation ends where the next one begins: its time is an upper bound, and is labeled so.
        both = [(op, its_own) for run, own in pairs for op, its_own in zip(run[2], own[2])]
        early = sum(op[0] + op[1] < its_own[0] + its_own[1] - ROUNDING_NS for op, its_own in both)
        print(f"     an operation is longer than in the profiler by {statistics.median(op[1] - its_own[1] for op, its_own in both):.0f} ns "
              f"(median), {early} of {len(both)} end before they do there")
        self.assertEqual(early, 0)
        self.assertTrue(any("Operations end where the next one" in w for w in xspace.warnings), xspace.warnings)

    def test_operations_of_a_model_that_is_loaded_where_another_one_was_have_its_names(self):
        xspace, sessions = self.capture("reload")
        pairs = self.compare(xspace, sessions)
        names = {op[2].split("/")[0] for _, own in pairs for op in own[2]}
        self.assertGreater(len(names), 10 * LAYERS)


    def test_operations_on_threads_of_a_pool_end_with_their_run_at_the_latest(self):
        xspace, sessions = self.capture("parallel")
        begin, end = (xspace.plane_stats["Task Environment"][name] + sign * EDGE_NS
                      for name, sign in (("profile_start_time", 1), ("profile_stop_time", -1)))
        ((profile,),) = sessions.values()
        runs = [run for run in profile.runs if begin <= run[0] and run[1] <= end]
        ends = [run[1] for run in runs]
        # The operations of a run have different names.
        own = [{op[2]: op[0] + op[1] for op in run[2]} for run in runs]
        found = [[] for _ in runs]
        late = early = 0
        for line in xspace.lines().values():
            for op in operations(xspace, line):
                at = bisect.bisect_left(ends, op[0])
                if at < len(runs) and runs[at][0] <= op[0]:
                    found[at].append(op[2])
                    late += op[0] + op[1] > ends[at] + ROUNDING_NS
                    early += op[0] + op[1] < own[at].get(op[2], 0) - ROUNDING_NS
        threads = sum(bool(list(operations(xspace, line))) for line in xspace.lines().values())
        wrong = sum(sorted(names) != sorted(ops) for names, ops in zip(found, own))
        print(f"     {len(runs)} runs, {sum(map(len, own))} operations on {threads} threads, {wrong} runs wrong; {late} operations end after their run, "
              f"{early} before they do in the profiler")
        FIGURES.update(runs=len(runs), operations=sum(map(len, own)), wrong_runs=wrong)
        self.assertGreater(len(runs), 10)
        self.assertGreater(threads, 1)
        self.assertEqual((wrong, late, early), (0, 0, 0))


class Harmless(harness.TestCase):
    packages = None
    argv = (harness.PYTHON, harness.SERVERS / "onnx_answers.py")

    def test_answers_of_forked_workers_stay_bit_identical_while_captures_come_and_go(self):
        before = harness.bpf_objects()
        daemon = self.start(harness.Daemon)
        server = self.start(harness.Process, "answers", self.argv,
                            env=self.packages and {"PYTHONPATH": str(self.packages)})
        server.wait_ready(lambda: server.line("ready"))
        workers = [int(pid) for pid in re.findall(r"^worker (\d+)$", server.stdout(), re.MULTILINE)]
        addresses = [harness.wait_target(daemon, pid)["address"] for pid in workers]
        for number in range(CYCLES):
            xspace = harness.response_xspace(harness.profile(addresses[number % len(addresses)], duration_ms=20, level=1 + number % 3))
            self.assertEqual(xspace.errors, [])
        self.assertEqual(harness.leftovers(before, 10, daemon), [])
        self.assertEqual(server.stop(), 0)
        answers = re.findall(r"^(\d+): (\d+) answers, (\d+) different$", server.stdout(), re.MULTILINE)
        print(f"     {CYCLES} captures; {', '.join(f'{count} answers, {different} different' for _, count, different in answers)}")
        FIGURES.update(answers=sum(int(count) for _, count, _ in answers), different=sum(int(different) for *_, different in answers))
        self.assertEqual(sorted(int(pid) for pid, _, _ in answers), sorted(workers))
        self.assertFalse([entry for entry in answers if int(entry[1]) < CYCLES or int(entry[2])])


class Compared(test_requests.Comparison):
    """Counts what is compared."""

    def judge(self, case, figures, exact):
        FIGURES.update(wrong_requests=sum(figures.wrong.values()))
        if exact:
            FIGURES.update(requests=figures.whole, right_requests=figures.right["exact"])
        return super().judge(case, figures, exact)


class Served(Compared):
    """Which request each run is of, by what servers and clients know."""
    packages = None

    def setUp(self):
        super().setUp()
        self.model = self.directory / "half_plus_two/1/model.onnx"
        self.model.parent.mkdir(parents=True)
        self.model.write_bytes(onnx_model.half_plus_two())

    def native(self, way, right, exact, ways=(True, False)):
        (library,) = (self.packages or test_sources.package("onnxruntime").parent).glob("onnxruntime/capi/libonnxruntime.so.*")
        self.serve_another("onnx", self.model.parents[1], way, (f"ONNX_RUN={way}", f"ONNX_LIBRARY={library}"), right, exact, ways)

    def test_runs_of_a_server_in_c_have_their_requests(self):
        self.native("run", 1, True)

    def test_bound_runs_of_a_server_in_c_have_their_requests(self):
        self.native("binding", 1, True)

    def python(self, label, *arguments):
        truth = self.directory / "truth"
        server = self.start(harness.Server, "onnx_http_server", [harness.PYTHON, harness.SERVERS / "onnx_http_server.py", self.model, truth, *arguments],
                            ("env", f"PYTHONPATH={self.packages or ''}"), False, False)
        self.run_cases(server, truth, [test_requests.Case(label, True, "half_plus_two", clients, rate, True, right=1)
                                       for clients, rate in ((8, 200), (64, 0))], exact=True)

    def test_runs_of_a_server_in_python_have_their_requests(self):
        self.python("Python HTTP/1.1")

    def test_runs_on_threads_of_an_event_loop_have_their_requests(self):
        self.python("ASGI, threads", "loop")

    def test_runs_in_forked_workers_have_their_requests(self):
        self.python("gunicorn", "workers")

    def test_asynchronous_runs_of_a_server_in_c_have_no_wrong_request(self):
        self.native("async", 0, False)

    def test_asynchronous_runs_with_options_of_their_own_have_their_requests(self):
        # By gRPC, the threads that hand runs over have not read the requests.
        self.native("async-options", 1, True, [True])
        self.native("async-options", 0, False, [False])


if __name__ == "__main__":
    harness.main()
