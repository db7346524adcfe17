# SPDX-License-Identifier: Apache-2.0
"""What a capture would attach: that it is shown before, that nothing is attached for showing it, and that it is what is
then attached; the budget of a capture; operations that have one probe each. As root."""
import collections
import os
import pathlib
import re
import subprocess

import harness
import test_cli
import test_lifecycle
from test_cli import DENIED, INTERNAL, LOSS, NO_TARGET, OK

LINE_COLUMNS = 120
OTHER = test_lifecycle.OTHER
PLAN_KEYS = {"level": int, "ops": str, "targets": list, "costs": list, "calibration": dict, "warnings": list}
TARGET_KEYS = {"pid": int, "name": str, "runtime": str, "version": str, "knowledge": str, "files": list, "probes": list,
               "not_shown": list}
FILE_KEYS = {"path": str, "build_id": (str, type(None)), "device": int, "inode": int, "size": int, "known": bool}
PROBE_KEYS = {"kind": str, "symbol": str, "function": (str, type(None)), "file": int, "function_offset": int,
              "offset": int, "instruction": str, "class": str, "cost_ns": int, "source": str,
              "semaphore_offset": (int, type(None)), "may_repeat": bool, "at_return": bool, "planted": bool,
              "reason": (str, type(None))}
COST_KEYS = {"unit": str, "cost_ns": int, "probes": int}
CALIBRATION_KEYS = {"emulated_ns": int, "stepped_ns": int, "switch_ns": int, "measured": bool, "perf_events": bool, "detach_us": int}
ATTEMPTS = 3
BUDGET_WINDOW = "3s"
BUDGET_MARGIN = 0.5     # percentage points


def planted(plan):
    """{path of a file: offsets at which a capture plants probes}, of a plan with one target."""
    target, = plan["targets"]
    found = collections.defaultdict(set)
    for probe in target["probes"]:
        if probe["planted"]:
            found[target["files"][probe["file"]]["path"]].add(probe["offset"])
    return dict(found)


class LivePlan(test_lifecycle.Lifecycle, test_cli.CliTestCase):
    """Against a daemon that runs, with a server that runs its model by itself."""
    rows = 1

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # With two threads that run it a fast machine makes more records than the daemon, which has no CPU left, can take.
        cls.server = harness.NativeServer(["layered"], self_load=1, rows=cls.rows, http=False)
        cls.addClassCleanup(cls.server.stop)
        cls.daemon = harness.Daemon()
        cls.addClassCleanup(cls.daemon.stop)
        harness.wait_target(cls.daemon, cls.server.pid)
        # The first runs take long: the graph is optimised then.
        harness.wait_until(lambda: cls.server.runs_per_s(0.2) > 50, 60, "the server is warm")

    def plan(self, *arguments, **how):
        return harness.ctl(self.daemon, "plan", "--pid", self.server.pid, *arguments, **how)

    def plan_json(self, *arguments):
        command = self.plan("--json", *arguments)
        self.assertEqual((command.status, command.stderr), (OK, ""))
        return command.json

    def capture(self, *arguments, duration="500ms"):
        return harness.ctl(self.daemon, "capture", "--pid", self.server.pid, "-o", self.logdir, "--duration", duration,
                           *arguments)

    def capture_json(self, *arguments, duration="500ms", status=OK):
        """(summary, XSpace)"""
        command = self.capture("--json", *arguments, duration=duration)
        self.assert_ends(command, status)
        return command.json, harness.XSpace(command.json["file"])


class Plan(LivePlan):
    def attached(self, paths):
        """What of the server's code differs from the files: {path: offsets}."""
        found = {path: {offset for offset, _ in test_lifecycle.changed_offsets(self.server.pid, os.path.basename(path))}
                 for path in paths}
        return {path: offsets for path, offsets in found.items() if offsets}

    def test_a_plan_names_every_probe_that_a_capture_then_attaches_and_no_other(self):
        for level, ops in ((1, "exact"), (2, "exact"), (3, "entry")):
            options = ["--level", level, "--ops", ops]
            plan = self.plan_json(*options)
            expected = planted(plan)
            self.assertTrue(expected)
            capture = harness.Process("tfprofctl", [test_cli.CTL, "--daemon", f"unix:{self.daemon.socket}", "capture",
                                                    "--pid", self.server.pid, "-o", self.logdir, "-d", "60s", *options])
            self.addCleanup(capture.stop)
            self.wait_window(self.daemon)
            found = self.attached({file["path"] for file in plan["targets"][0]["files"]})
            capture.stop()
            self.assertEqual(found, expected)
            harness.wait_until(lambda: not self.attached(found), 10, "the probes are gone")

    def test_a_plan_attaches_nothing_to_the_process(self):
        path, = (p for p in planted(self.plan_json()) if "framework" in p)
        before = harness.bpf_objects()
        # One that has seen neither the files nor this machine.
        daemon = self.start(harness.Daemon)
        harness.wait_target(daemon, self.server.pid)
        command = harness.Process("tfprofctl", [test_cli.CTL, "--daemon", f"unix:{daemon.socket}", "plan", "--level", 3,
                                                "--pid", self.server.pid])
        self.addCleanup(command.stop)
        looks = 0
        while command.running():
            self.assertEqual(self.attached([path]), {})
            looks += 1
        self.assertEqual(command.popen.returncode, OK, command.stderr())
        self.assertTrue(looks)
        self.assertEqual(harness.leftovers(before, timeout=0, daemon=daemon), [])

    def assert_shape(self, value, keys):
        self.assertEqual(set(value), set(keys))
        for key, kind in keys.items():
            self.assertIsInstance(value[key], kind, key)

    def test_the_json_object_is_complete(self):
        plan = self.plan_json("--level", 2)
        self.assert_shape(plan, PLAN_KEYS)
        self.assert_shape(plan["calibration"], CALIBRATION_KEYS)
        self.assertEqual((plan["level"], plan["ops"], plan["warnings"]), (2, "exact", []))
        target, = plan["targets"]
        self.assert_shape(target, TARGET_KEYS)
        self.assertEqual((target["pid"], target["name"]), (self.server.pid, "native_server"))
        for file in target["files"]:
            self.assert_shape(file, FILE_KEYS)
            st = os.stat(f"/proc/{self.server.pid}/root{file['path']}")
            self.assertEqual((file["device"], file["inode"], file["size"]), (st.st_dev, st.st_ino, st.st_size))
        costs = {"emulated": plan["calibration"]["emulated_ns"], "single-stepped": plan["calibration"]["stepped_ns"]}
        for probe in target["probes"]:
            self.assert_shape(probe, PROBE_KEYS)
            self.assertLess(probe["file"], len(target["files"]))
            self.assertTrue(probe["function_offset"] <= probe["offset"] < target["files"][probe["file"]]["size"])
            self.assertEqual(probe["cost_ns"], costs[probe["class"]])
            # Functions of C have no other name.
            self.assertNotIn("_Z", probe["function"] or "")
            self.assertEqual(probe["planted"], probe["kind"] not in ("hand-over of ops", "allocations", "loads", "encrypted requests"))
        # Of a library that not every build of the server loads.
        self.assertEqual({p["kind"] for p in target["probes"]} - {"encrypted requests"},
                         {"runs", "executors", "ops", "hand-over of ops", "allocations", "iterators", "loads"})
        for cost in plan["costs"]:
            self.assert_shape(cost, COST_KEYS)
        probes = {cost["unit"]: cost["probes"] for cost in plan["costs"]}
        self.assertEqual((probes["run"], probes["op"], probes["executor"], probes["executor piece"], probes["step of an iterator"]),
                         (2, 2, 3, 1, 2))

    def test_levels_and_ops_at_their_entry_cost_less(self):
        def costs(*options):
            return {cost["unit"]: (cost["cost_ns"], cost["probes"]) for cost in self.plan_json(*options)["costs"]}
        exact, entry, runs = costs("--level", 2), costs("--level", 2, "--ops=entry"), costs("--level", 1)
        self.assertEqual((exact["op"][1], entry["op"][1]), (2, 1))
        self.assertLess(entry["op"][0], exact["op"][0])
        # This kernel has tracepoints at sockets: no other system call costs anything.
        message = "call that passes a message at a socket"
        self.assertEqual(list(runs), ["run", "stream of gRPC", message])
        self.assertEqual(runs[message][1], 0)
        self.assertGreater(runs[message][0], 0)
        self.assertEqual(list(costs("--level", 1, "--sockets=off")), ["run"])

    def test_the_text_is_human_readable(self):
        plan = self.plan_json()
        command = self.plan()
        self.assertEqual((command.status, command.stderr), (OK, ""))
        lines = command.stdout.splitlines()
        probes = [p for p in plan["targets"][0]["probes"] if p["planted"]]
        self.assertLess(len(lines), len(probes) + 30)
        self.assertEqual(lines[0].split("; ")[-1], f"{len(probes)} probes at level 2")
        rows = [line for line in lines if re.match(r"  (runs|executors|ops|iterators) ", line)]
        self.assertEqual(len(rows), len(probes))
        for line in lines:
            if "/" not in line:
                self.assertLessEqual(len(line), LINE_COLUMNS, line)
        for row in rows:
            self.assertRegex(row, r"^  \w+ +\d+  (emulated|single-stepped) +\S.*  \d+  0x[0-9a-f]+(\+\d+)? +\.\w+ +\S")
            self.assertNotIn("_Z", row)
        self.assertRegex(command.stdout, r"(?m)^Forecast:$")
        self.assertRegex(command.stdout, r"(?m)^  op +[\d.]+ [nu]s +2$")
        self.assertRegex(command.stdout, r"(?m)^  (measured on this machine|estimated from another machine): a hit costs ")

    def test_every_plan_is_complete(self):
        expected = planted(self.plan_json())
        for _ in range(30):
            self.assertEqual(planted(self.plan_json()), expected)

    def test_without_pid_every_target_is_planned(self):
        command = harness.ctl(self.daemon, "plan", "--json")
        self.assertEqual(command.status, OK, command.stderr)
        self.assertIn(self.server.pid, [target["pid"] for target in command.json["targets"]])

    def test_a_failed_plan_ends_like_a_capture(self):
        ended = subprocess.Popen(["true"])
        self.addCleanup(ended.wait)
        harness.wait_until(lambda: not pathlib.Path(f"/proc/{ended.pid}/maps").read_text(), 5, "a process has ended")
        relay = test_lifecycle.UserRelay(("127.0.0.1", self.daemon.port), OTHER)
        self.addCleanup(relay.close)
        for where, pid, status, message in (
                (f"unix:{self.daemon.socket}", 4194304, NO_TARGET, "there is no process 4194304"),
                (f"unix:{self.daemon.socket}", ended.pid, NO_TARGET, f"process {ended.pid} executes no program"),
                (f"127.0.0.1:{relay.port}", self.server.pid, DENIED, f"may not profile process {self.server.pid}")):
            for command in (["plan"], ["plan", "--json"], ["capture", "-o", self.logdir]):
                done = harness.run(test_cli.CTL, "--daemon", where, *command, "--pid", pid)
                self.assert_ends(done, status, message)
                self.assertEqual(done.stdout, "")
        self.assert_nothing_left()

    def test_capture_explain_shows_the_same_plan(self):
        # The first one makes the files known, which the plan shows.
        self.plan()
        options = ["--level", "3", "--ops=entry"]
        text, plan = self.plan(*options).stdout, self.plan_json(*options)
        explained = self.capture("--explain", *options)
        self.assertEqual(explained.status, OK, explained.stderr)
        self.assertEqual(explained.stderr, text)
        self.assertTrue(explained.stdout.startswith("Captured "), explained.stdout)
        found = self.capture("--explain", "--json", *options)
        self.assert_ends(found, OK)
        self.assertEqual(found.json["plan"], plan)
        self.assertNotIn("plan", self.capture_json(*options)[0])


class Budget(LivePlan):
    def test_a_budget_of_a_tenth_of_the_cost_is_kept_and_disabled_kinds_are_reported(self):
        cost = self.capture_json("--level", 3, duration="400ms")[0]
        self.assertEqual((cost["shed"], cost["max_overhead_percent"]), ([], None))
        self.assertGreater(cost["overhead_percent"], 5)
        budget = round(cost["overhead_percent"] / 10, 2)
        def attempt(_):
            found, xspace = self.capture_json("--level", 3, "--max-overhead", f"{budget}%", duration=BUDGET_WINDOW,
                                              status=LOSS)
            self.check_told(found, xspace, budget)
            print(f"     {cost['overhead_percent']:.1f} % without a budget; with {budget} %: {found['overhead_percent']}")
            if found["overhead_percent"] > budget + BUDGET_MARGIN:
                raise harness.Disturbed(f"{found['overhead_percent']} % with a budget of {budget} %")
        harness.retry_times(ATTEMPTS, attempt)

    def check_told(self, found, xspace, budget):
        kinds = [shed["kind"] for shed in found["shed"]]
        self.assertNotIn("ops", kinds, "ops are sampled")
        self.assertGreaterEqual(found["op_sampling"]["slices"], 1)
        self.assertEqual(len(set(kinds)), len(kinds))
        self.assertNotIn("runs", kinds[:-1], "runs are shed last")
        if "runs" not in kinds:
            self.assertTrue(any(e.start_ps > 2e12 for e in xspace.events("SessionRun")))
        self.assertEqual((found["max_overhead_percent"], found["dropped"], found["cut"]), (budget, 0, False))
        for shed in found["shed"]:
            self.assertGreater(shed["overhead_percent"], budget)
            self.assertLess(shed["at_ns"], found["window_ns"])
            text = f"{shed['at_ns'] / 1e9:.3f} s after the window began, {shed['kind']} were disabled"
            for warnings in (found["warnings"], xspace.warnings):
                self.assertTrue(any(w.startswith(text) for w in warnings), warnings)
        self.assert_on_overview(xspace, xspace.warnings)
        gaps = xspace.lines()["not captured"]
        paused = [e for e in gaps if e.name.startswith("Not recorded here: ops")]
        # At once, and none is shown where they are not recorded.
        self.assertLess(paused[0].start_ps, 1e12)
        inside = [e for events in xspace.op_events().values() for e in events
                  if any(gap.start_ps < e.start_ps < gap.start_ps + gap.duration_ps for gap in paused)]
        self.assertEqual(inside, [])

    def test_the_summary_lists_disabled_kinds_and_ends_with_6(self):
        command = self.capture("--max-overhead", "0.5")
        self.assert_ends(command, LOSS, "forecast: ")
        self.assertRegex(command.stdout, r"(?m)^  probe overhead: about [\d.]+ % of the target's CPU time; budget: 0.5 %$")
        self.assertRegex(command.stdout, r"(?m)^  sampled  operations, in \d+ slices?: [\d.]+ m?s of [\d.]+ m?s$")
        self.assertRegex(command.stdout, r"(?m)^  disabled: [a-z ]+, after [\d.]+ ms, when the probe overhead was [\d.]+ %$")

    def test_a_budget_that_is_not_exceeded_changes_nothing(self):
        # Without ops, whose forecast cost can pass even that where probes are fast.
        found, xspace = self.capture_json("--level", 1, "--max-overhead", "100")
        self.assertEqual((found["shed"], found["max_overhead_percent"], xspace.warnings), ([], 100, []))


class OpsAtEntry(LivePlan):
    def test_the_same_ops_are_captured_by_one_probe_each_and_their_ends_are_labeled(self):
        # Level 3 shows every op, also the cheap ones.
        exact, exact_xspace = self.capture_json("--level", 3, duration="400ms")
        entry, entry_xspace = self.capture_json("--level", 3, "--ops=entry", duration="400ms")
        self.assertEqual((exact["ops_at_entry"], entry["ops_at_entry"]), (False, True))
        self.assertEqual(exact_xspace.warnings, [])
        self.assertEqual([w for w in entry_xspace.warnings if "end where the next one" in w],
                         entry_xspace.warnings)
        self.assertEqual(len(entry_xspace.warnings), 1)

        # The other records, of runs, executors and the scheduler, are about as many for an op in both.
        traps = [found["records"] / found["ops"] for found in (exact, entry)]
        print(f"     records per op: exact {traps[0]:.2f}, at entry {traps[1]:.2f}")
        self.assertAlmostEqual(traps[0] - traps[1], 1, delta=0.25)

        counts = [{name: len(durations) / found["runs"] for name, durations in xspace.ops().items()}
                  for found, xspace in ((exact, exact_xspace), (entry, entry_xspace))]
        self.assertEqual(set(counts[0]), set(counts[1]))
        self.assertGreater(len(counts[0]), 100)
        for name, count in counts[0].items():
            self.assertAlmostEqual(counts[1][name] / count, 1, delta=0.05, msg=name)

        for xspace, label in ((exact_xspace, None), (entry_xspace, "next entry")):
            ends = collections.Counter(e.stats.get("end") for e in xspace.events()
                                       if e.name in counts[0] and "cut" not in e.stats)
            self.assertGreater(ends[label] / ends.total(), 0.999, ends)

    def test_the_summary_reports_inexact_ends(self):
        command = self.capture("--ops", "entry")
        self.assertEqual(command.status, OK, command.stderr)
        self.assertRegex(command.stdout, r"(?m)^  ends +an operation is shown to end where the next one starts")


class Answers(test_cli.FakeTestCase):
    """Plans as a real server on this machine does not have them."""

    def plan(self, **fields):
        messages = test_cli.control_messages()
        probe = {"kind": "ops", "symbol": "_ZN3app6Server3RunEi", "function": 0x1000, "offset": 0x1004,
                 "instruction": "push %rbx", "class": "emulated", "cost_ns": 700, "source": "USDT", "planted": True}
        probes = [messages.PlannedProbe(**{**probe, **more}) for more in fields.pop("probes", [{}])]
        file = messages.PlannedFile(path="/lib/libserver.so", build_id="0123abcd", known=True)
        target = messages.PlannedTarget(pid=7, name="server", runtime="Runtime", files=[file], probes=probes, **fields)
        return messages.PlanReply(targets=[target], calibration=messages.Calibration(measured=True, emulated_ns=700))

    def shown(self, **fields):
        command = self.ask("plan", plan=lambda request, context: self.plan(**fields))
        self.assert_ends(command, OK)
        return command.stdout

    def test_semaphores_refusals_and_missing_probes_are_listed_by_name(self):
        text = self.shown(probes=[{"semaphore": 0x2000, "may_repeat": True}, {"kind": "runs", "class": "refused", "planted": False,
                                                         "reason": "too small", "cost_ns": 0}, {"planted": False}],
                          not_shown=["Process 7: not shown: ops (no such function in this build)."])
        self.assertIn("Process 7 (server): Runtime -; 1 probe at level 2\n", text)
        self.assertRegex(text, r"(?m)^     0  0123abcd  known  /lib/libserver.so$")
        self.assertRegex(text, r"(?m)^  ops +700  emulated  push %rbx +0  0x1000\+4  USDT +app::Server::Run\(int\)$")
        name = "app::Server::Run(int)"
        for remark in ("While these probes are attached, the kernel increments a counter in the process:\n"
                       f"    {name}: offset 0x2000 of file 0\n",
                       "A call of these functions may count more than once, because they can jump back to their entry:\n"
                       f"    {name}\n", f"Refused:\n    {name}: too small\n"):
            self.assertEqual(text.count(f"  {remark}"), 1, text)
        self.assertIn("  Found, but not attached by such a capture: 1 more.\n", text)
        self.assertIn("  Process 7: not shown: ops (no such function in this build).\n", text)
        self.assertIn("  measured on this machine: a hit costs 700 ns", text)

    def test_long_names_are_shortened_in_the_text_but_not_in_the_json(self):
        symbol = "_ZN3app" + "6Server" * 40 + "3RunEi"
        line, = (line for line in self.shown(probes=[{"symbol": symbol}]).splitlines() if "0x1000" in line)
        self.assertLessEqual(len(line), LINE_COLUMNS)
        self.assertIn("...", line)
        self.assertTrue(line.endswith("::Server::Run(int)"), line)
        found = self.ask("plan --json", plan=lambda request, context: self.plan(probes=[{"symbol": symbol}])).json
        probe, = found["targets"][0]["probes"]
        self.assertEqual((probe["symbol"], probe["function"].count("Server::")), (symbol, 40))

    def test_untrusted_plans_cannot_control_the_terminal_or_break_the_json(self):
        ugly = "a\x1b[31m\u202e\n\"\\b"
        fields = {"probes": [{key: ugly for key in ("kind", "symbol", "instruction", "class", "source", "reason")}],
                  "not_shown": [ugly]}
        self.assertNotRegex(self.shown(**fields), "[\x1b\u202e]")
        found = self.ask("plan --json", plan=lambda request, context: self.plan(**fields))
        self.assert_ends(found, OK)
        self.assertEqual(found.json["targets"][0]["probes"][0]["symbol"], ugly)

    def test_an_empty_plan_does_no_harm(self):
        empty = test_cli.control_messages().PlanReply()
        for command in ("plan", "plan --json"):
            self.assert_ends(self.ask(command, plan=lambda request, context: empty), OK)

    def test_a_plan_without_a_result_is_not_a_capture(self):
        reply = test_cli.control_messages().CaptureReply(plan=self.plan())
        for command in ("capture --json", "capture --json --explain"):
            self.assert_ends(self.ask(command, capture=lambda request, context: iter([reply, reply])), INTERNAL,
                             "sent no result")
            self.assert_nothing_left()


if __name__ == "__main__":
    harness.main()
