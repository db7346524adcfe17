# SPDX-License-Identifier: Apache-2.0
"""Operations of PyTorch in eager mode, against its own profiler."""
import itertools
import json
import pathlib
import re
import statistics
import subprocess

import harness
import test_onnxruntime
import test_requests

# Debian's package is for Debian's interpreter.
PYTHON, PACKAGES = "/usr/bin/python3", "/usr/lib/python3/dist-packages"
FIGURES = test_onnxruntime.FIGURES
FIGURE_NAMES = "operations", "wrong_operations", "requests", "right_requests", "wrong_requests", "answers", "different"
WINDOW_S = 2
# What began or ended so near to an edge of the window may be missing on one of the two sides.
EDGE_NS = 20_000_000
# Between groups of operations a thread sleeps for longer.
APART_NS = 3_000_000
# When its profiler began is known to this.
CLOCK_NS = 1_000_000
# What Python gets from these is no tensor: a number, and an exception.
NO_TENSOR = ("aten::item", "aten::matmul")


def enclosing(ops):
    """Of each operation the numbers of those that it is inside of, the innermost last."""
    found, inside = [], []
    for number, (start, _, _) in enumerate(ops):
        while inside and ops[inside[-1]][1] <= start:
            inside.pop()
        found.append(tuple(inside))
        inside.append(number)
    return found


def groups(ops):
    """Operations as they follow one another without a pause."""
    found = []
    for op in ops:
        if not found or op[0] - found[-1][-1][0] > APART_NS:
            found.append([])
        found[-1].append(op)
    return found


class PyTorch(harness.TestCase):
    packages = PACKAGES

    def release(self):
        # Debian's package says 1.13.0a0 of itself.
        found = [path.stem.split("-")[1] for path in pathlib.Path(self.packages).glob("torch-*.dist-info")]
        return found[0] if found else "1.13.1"

    def capture(self):
        daemon = self.start(harness.Daemon)
        log = self.directory / "profile.json"
        server = self.start(harness.Process, "torch", [PYTHON, harness.SERVERS / "torch_runs.py", log], env={"PYTHONPATH": str(self.packages)})
        server.wait_ready(lambda: server.line("ready"), 60)
        target = harness.wait_target(daemon, server.pid)
        self.assertEqual((target["runtime"], target["version"]), ("PyTorch", self.release()))
        harness.read_files(daemon, server)
        xspace = harness.response_xspace(harness.profile(target["address"], duration_ms=WINDOW_S * 1000, level=2))
        self.assertEqual(server.stop(), 0)
        self.assertEqual(xspace.errors, [])
        self.assertFalse([w for w in xspace.warnings if "not shown" in w or "lost" in w.lower() or "names" in w], xspace.warnings)
        return xspace, json.loads(log.read_text())

    def test_operations_are_those_of_its_own_profiler_in_its_order_and_never_shorter(self):
        xspace, profile = self.capture()
        begin, end = (xspace.plane_stats["Task Environment"][name] + sign * EDGE_NS
                      for name, sign in (("profile_start_time", 1), ("profile_stop_time", -1)))
        first = xspace.plane_stats["Task Environment"]["profile_start_time"]
        # In TensorBoard's tables a type has no small letter in front.
        shown = {f"{function}:_{function}" if function[0] != "_" else f"{function}:{function}": name for function, name in profile["names"].items()}
        compared = wrong = early = inside = deeper = higher = 0
        longer, seen = [], set()
        for thread in profile["threads"]:
            (line,) = [events for name, events in xspace.lines().items() if name.endswith(f"/{thread['thread']}")]
            ours = groups(sorted(((first + e.start_ps // 1000, first + (e.start_ps + e.duration_ps) // 1000, e.name)
                                  for e in line if re.fullmatch(r"[^:]*:\w+", e.name)), key=lambda op: (op[0], -op[1])))
            to_ns = lambda us: thread["start_ns"] + int(us * 1000)
            its = groups([(to_ns(op[2]), to_ns(op[3]), op[1], op[0]) for op in thread["operations"]])
            its = [group for group in its if begin <= group[0][0] and group[-1][1] <= end]
            pairs = [(group, mine) for group, mine in itertools.product(its, ours) if abs(group[0][0] - mine[0][0]) < CLOCK_NS]
            self.assertGreater(len(pairs), 5)
            # From the first common pause to the last one.
            its, ours = (sum(both[both.index(first):both.index(last)], []) for both, first, last in zip((its, ours), pairs[0], pairs[-1]))
            wrong += sum(shown.get(op[2]) != its_own[2] for op, its_own in itertools.zip_longest(ours, its, fillvalue=(0, 0, None)))
            compared += len(its)
            seen |= {op[2] for op in its}
            outer = enclosing(ours)
            depths = [(len(around), op[3]) for around, op in zip(outer, its)]
            # What Python called is inside of another one only where that one gave it no tensor.
            inside += sum(op[3] == 0 and around != () and its[around[0]][2] not in NO_TENSOR for around, op in zip(outer, its))
            deeper += sum(depth > own for depth, own in depths)
            higher += sum(depth < own for depth, own in depths)
            early += sum(op[1] - op[0] < its_own[1] - its_own[0] for op, its_own in zip(ours, its))
            longer += [op[1] - op[0] - (its_own[1] - its_own[0]) for op, its_own in zip(ours, its)]
        print(f"     {compared} operations of {len(seen)} names on {len(profile['threads'])} threads, {wrong} wrong; one is longer than in the profiler by "
              f"{statistics.median(longer):.0f} ns (median), {early} are shorter; {deeper} are shown inside one more than there, {higher} inside one less")
        FIGURES.update(operations=compared, wrong_operations=wrong)
        self.assertEqual((wrong, early, inside), (0, 0, 0))
        # Which one an operation is inside of is inferred.
        self.assertLess(higher, compared / 1000)
        self.assertGreater(compared, 500)
        self.assertLessEqual({"aten::linear", "aten::conv1d", "aten::sort", "aten::item", "aten::matmul", "aten::_softmax"}, seen)
        for text in ("Operations end where the next one", "is inside of is inferred"):
            self.assertTrue(any(text in w for w in xspace.warnings), xspace.warnings)
        path = self.directory / "shown.xplane.pb"
        path.write_bytes(xspace.proto.SerializeToString())
        table = next(iter(harness.convert(path, "framework_op_stats")))["rows"]
        self.assertLessEqual(seen, {shown.get(f"{row['c'][3]['v']}:{row['c'][2]['v']}") for row in table})


class Harmless(test_onnxruntime.Harmless):
    packages = PACKAGES
    argv = (PYTHON, harness.SERVERS / "torch_answers.py")


class Served(test_onnxruntime.Compared):
    """Which request each run is of, by what servers and clients know."""

    packages = PACKAGES

    def server(self, way, python=PYTHON, arguments=()):
        self.truth = self.directory / "truth"
        # Another interpreter's own packages come first.
        path = ("env", f"PYTHONPATH={self.packages}") if python == PYTHON else ()
        return self.start(harness.Server, "torch_http_server", [python, harness.SERVERS / "torch_http_server.py", way, self.truth, *arguments], path, False, False)

    def serve(self, way, right=1, label="Python", python=PYTHON, arguments=()):
        self.run_cases(self.server(way, python, arguments), self.truth, [
            test_requests.Case(f"{way}, {label}", True, "half_plus_two", clients, rate, True, right, fresh=fresh)
            for clients, rate, fresh in ((8, 200, False), (64, 0, False), (8, 200, True))], exact=right == 1)

    def test_blocks_without_gradients_are_the_runs_of_their_requests(self):
        self.serve("no_grad")

    def test_blocks_in_inference_mode_are_the_runs_of_their_requests(self):
        self.serve("inference_mode")

    def test_runs_of_torchscript_have_their_requests(self):
        self.serve("TorchScript")

    def count(self, way):
        server = self.server(way)
        harness.wait_target(self.daemon, server.pid)
        harness.read_files(self.daemon, server)
        client = self.start(harness.LoadClient, server.port, True, self.directory / "log", "--model", "half_plus_two", "--clients", 4)
        found = harness.ctl_capture(self.daemon, [server.pid], self.directory / "l", "--level", 2, duration="1s").json
        log = client.finish()
        whole, cut = (found["requests"][name] for name in ("whole", "cut"))
        print(f"     {way}: {whole} whole requests, {found['runs']} whole runs; the client made {len(log)} requests")
        self.assertGreater(whole, 100)
        # A run can be whole in a request that is not. Until a thread's state is known its run is truncated.
        self.assertTrue(whole - 4 <= found["runs"] <= whole + cut, (whole, cut, found["runs"]))
        self.assertLessEqual(whole, len(log))

    def test_as_many_blocks_are_counted_as_requests_also_with_operations(self):
        self.count("inference_mode")

    def test_as_many_runs_of_torchscript_are_counted_as_requests_also_with_operations(self):
        self.count("TorchScript")

    def test_blocks_on_threads_of_an_event_loop_are_the_runs_of_their_requests(self):
        # Its packages are of the other interpreter.
        self.serve("inference_mode", label="ASGI", python=harness.PYTHON, arguments=["loop", self.packages])

    def test_blocks_in_forked_workers_are_the_runs_of_their_requests(self):
        self.serve("no_grad", label="gunicorn", python=harness.PYTHON, arguments=["workers", self.packages])

    def test_threads_that_never_compute_gradients_again_have_no_wrong_request(self):
        self.serve("off", 0)


class ServedInCpp(test_requests.Comparison):
    def native(self, way):
        model = self.directory / "half_plus_two/1/model.pt"
        model.parent.mkdir(parents=True)
        subprocess.run([PYTHON, harness.SERVERS / "torch_model.py", model], check=True)
        self.serve_another("torch", model.parents[1], f"{way}, C++", [f"TORCH_RUN={way}"], 1, True)

    def test_blocks_of_a_server_in_cpp_are_the_runs_of_their_requests(self):
        self.native("no_grad")

    def test_blocks_in_inference_mode_of_a_server_in_cpp_are_the_runs_of_their_requests(self):
        self.native("inference_mode")

    def test_runs_of_torchscript_in_a_server_in_cpp_have_their_requests(self):
        self.native("TorchScript")


if __name__ == "__main__":
    harness.main()
