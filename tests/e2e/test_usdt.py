# SPDX-License-Identifier: Apache-2.0
"""Static probes: those that a server has for tfprofd mark its requests, and the kernel's counter in the server is shown and reset."""
import json
import pathlib
import signal
import statistics
import time

import harness

# Readers leave the first step and the last out.
STEPS_LEFT_OUT = 2
AFTER_S = 0.5
FIXTURES = harness.BUILD / "fixtures"


class Labelling(harness.Process):
    """The server in Python that marks what its threads do."""

    def __init__(self):
        super().__init__("labelling", [harness.PYTHON, harness.ROOT / "tests/fixtures/labelling.py", FIXTURES / "libtensorflow_framework.so.2"],
                         env={"TFPROF_LIBRARY": str(harness.OUT / "libtfprof.so")})
        self.wait_ready(lambda: self.line("ready"))


class Marks(harness.TestCase):
    def test_marked_requests_are_captured_by_number_and_the_semaphore_is_reset(self):
        for program in "marking", "marking_cxx":
            self.check_marks(program)

    def check_marks(self, program):
        before = harness.bpf_objects()
        daemon = self.start(harness.Daemon)
        server = self.start(harness.Process, program, [FIXTURES / program, FIXTURES / "libtensorflow_framework.so.2"])
        server.wait_ready(lambda: server.line("ready"))
        harness.wait_target(daemon, server.pid)
        plan = harness.ctl(daemon, "plan", "--pid", server.pid, "--json").json
        probes = {p["symbol"].split()[0]: p for p in plan["targets"][0]["probes"] if p["source"] == "USDT"}
        self.assertEqual(set(probes), {"tfprof:request_begin", "tfprof:request_end", "tfprof:span_begin", "tfprof:span_end"})
        for probe in probes.values():
            self.assertEqual((probe["class"], probe["instruction"], probe["planted"]), ("emulated", "nop", True))
        self.assertFalse(probes["tfprof:request_begin"]["semaphore_offset"])
        self.assertTrue(probes["tfprof:request_end"]["semaphore_offset"])
        text = harness.ctl(daemon, "plan", "--pid", server.pid).stdout
        self.assertRegex(text, "kernel increments a counter in the process")

        address = harness.ctl_targets(daemon)[server.pid]["address"]
        xspace = harness.response_xspace(harness.profile(address, duration_ms=1000, level=1))
        requests = xspace.events("Request")
        whole = [e for e in requests if "cut" not in e.stats and "end" not in e.stats]
        self.assertGreater(len(whole), 100)
        numbers = [e.stats["id"] for e in whole]
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))
        durations = [e.duration_ps / 1e9 for e in whole]
        self.assertGreaterEqual(min(durations), 2)
        self.assertLess(statistics.median(durations), 2.9)     # the pause between two is no part of them
        # Each has its part in it, which identifies it.
        parts = {e.stats["request_id"]: e for e in xspace.events("span parse") if "cut" not in e.stats}
        self.assertLessEqual(set(numbers), set(parts))
        for e in whole:
            part = parts[e.stats["id"]]
            self.assertEqual(part.stats["arguments"], f"request_id={e.stats['id']},codec=json")
            self.assertLessEqual(e.start_ps, part.start_ps)
            self.assertLessEqual(part.start_ps + part.duration_ps, e.start_ps + e.duration_ps)
            self.assertGreaterEqual(part.duration_ps / 1e9, 1)
        self.assertEqual(harness.leftovers(before, 5, daemon), [])
        # Some more that nobody watches.
        time.sleep(AFTER_S)
        server.send(signal.SIGTERM)
        server.wait(10)
        m = server.line(r"requests (\d+), watched (\d+)")
        # Watched in the capture, and not before or after it.
        self.assertGreater(int(m[2]), 100)
        self.assertLess(int(m[2]), int(m[1]) - 50)
        self.assertLess(int(m[2]), 600)

    def test_spans_of_a_python_server_are_shown_unchanged_and_no_page_misreads_them(self):
        daemon = self.start(harness.Daemon)
        server = self.start(Labelling)
        harness.wait_target(daemon, server.pid)
        plan = harness.ctl(daemon, "plan", "--pid", server.pid, "--json").json
        probes = {p["symbol"].split()[0]: p for p in plan["targets"][0]["probes"] if p["source"] == "USDT"}
        self.assertEqual(set(probes), {"tfprof:request_begin", "tfprof:request_end", "tfprof:span_begin", "tfprof:span_end",
                                       "tfprof:work_made", "tfprof:work_begin", "tfprof:work_end"})
        # The forecast has the spans, and the contexts, of which there are those of the event loop, too.
        costs = {cost["unit"]: cost for cost in plan["costs"]}
        contexts = [p for p in plan["targets"][0]["probes"] if p["kind"] == "contexts of requests"]
        self.assertTrue({"USDT", "jump"} <= {p["source"] for p in contexts})
        for unit, hits in (("new context", 1), ("step in a context", 2), ("span of the server's own", 2)):
            self.assertEqual(costs[unit]["probes"], hits, unit)
            self.assertGreaterEqual(costs[unit]["cost_ns"], hits * plan["calibration"]["emulated_ns"], unit)
        self.assertEqual({(p["class"], p["kind"], p["planted"]) for name, p in probes.items() if "span" in name},
                         {("emulated", "the server's own spans", True)})
        logdir = self.directory / "logdir"
        command = harness.ctl_capture(daemon, [server.pid], logdir, "--level", "1")
        self.assertEqual(command.status, 0, command.stderr)
        file, = harness.xspace_files(logdir)
        xspace = harness.XSpace(file)
        spans = {name: [e for e in xspace.events(f"span {name}") if "cut" not in e.stats] for name in
                 ("handle", "train:Step", 'answer \u00e4 "')}
        for name, events in spans.items():
            self.assertGreater(len(events), 500, name)
        self.assertEqual(spans["train:Step"][0].stats["arguments"].split(",")[0], "codec=json  ")
        handled = sorted((e.stats["request_id"], e.stats["step_num"], e.start_ps, e.start_ps + e.duration_ps) for e in spans["handle"])
        self.assertEqual([a for a, *_ in handled], [b for _, b, *_ in handled])
        # Two at a time: the window's end may cut one that began before the last whole one.
        cut = {e.stats["request_id"] for e in xspace.events("span handle") if "cut" in e.stats and "request_id" in e.stats}
        self.assertEqual(sorted([a for a, *_ in handled] + [a for a in cut if handled[0][0] < a < handled[-1][0]]),
                         list(range(handled[0][0], handled[-1][0] + 1)))
        # The parts of each lie within it.
        by_number = {number: (start, end) for number, _, start, end in handled}
        within = [e for e in spans["train:Step"] if (number := int(e.stats["arguments"].rpartition("size=")[2])) in by_number
                  and by_number[number][0] <= e.start_ps and e.start_ps + e.duration_ps <= by_number[number][1]]
        self.assertGreaterEqual(len(within), len(handled))
        server.send(signal.SIGTERM)
        server.wait(10)
        taken = json.loads(server.stdout().splitlines()[-1])
        for name, own in (("train:Step", "train:Step"), ('answer \u00e4 "', 'answer \u00e4\x01"')):
            self.assertAlmostEqual(statistics.median(e.duration_ps / 1e9 for e in spans[name]), statistics.median(taken[own]) / 1e6,
                                   delta=0.1)

        board = self.start(harness.TensorBoard, logdir)
        run, = board.runs()
        self.assertEqual(board.op_stats(run), [])
        shown = {e["name"] for e in board.trace(run) if e.get("ph") == "X"}
        self.assertLessEqual({"train:Step", 'answer \u00e4 "'}, shown)
        steps = next(t for t in board.page(run, "overview_page") if t["cols"] and t["cols"][0]["id"] == "stepnum")
        names = [row["c"][0]["v"] for row in steps["rows"]]
        # A step is a request: no span is one, whatever its name and number.
        requests = [e for e in xspace.events("Request") if "cut" not in e.stats and "incomplete" not in e.stats]
        self.assertEqual(len(names), len(requests) - STEPS_LEFT_OUT)
        self.assertEqual({name.rpartition(" ")[0] for name in names}, {"request"})

    def test_program_without_marks_is_not_a_file_of_its_target(self):
        daemon = self.start(harness.Daemon)
        server = self.start(harness.NativeServer, ["half_plus_two"])
        harness.wait_target(daemon, server.pid)
        plan = harness.ctl(daemon, "plan", "--pid", server.pid, "--json").json
        files = {pathlib.Path(f["path"]).name for f in plan["targets"][0]["files"]}
        self.assertEqual(files, {"libtensorflow_framework.so.2", "libtensorflow_cc.so.2"})


if __name__ == "__main__":
    harness.main()
