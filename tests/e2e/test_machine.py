# SPDX-License-Identifier: Apache-2.0
"""What the runtimes of releases do not have, by a runtime of the tests and a daemon with packs for it: functions that an API struct leads to,
values behind up to three pointers, operations that are numbers, names inside of objects and behind pointers. Its own log is the truth."""
import bisect
import re
import struct
import unittest.mock

import harness

MACHINE = harness.BUILD / "fixtures/machine_server"
OK = 0
RECORDS, PROBE = 5, 1
FIRST_NUMBER, RUNS_MAX = 7_000_000_000, 100_000
# Reading the clock, and a probe's hit, between a line of the log and a record.
APART_NS = 1_000_000


class Log:
    """What the machine printed: runs as (begin, end, number, names of their operations), in Unix nanoseconds."""

    def __init__(self, text):
        self.runs = [(int(begin), int(end), int(number), [self.full(name) for name in names.split(",")])
                     for begin, end, number, names in re.findall(r"^(\d+) (\d+) (\d+) (\S+)$", text, re.MULTILINE)]

    @staticmethod
    def full(name):
        """An operation without a type of its own is its own type."""
        return name if ":" in name else f"{name}:{name}"


def run_values(recording):
    """(value, value2, tag) of the records of a recording that the machine's runs begin with."""
    data, at, found = recording.read_bytes(), 24, []
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        at += 16
        end = at + size
        while kind == RECORDS and at < end:
            record, _, words = struct.unpack_from("<12xBBB", data, at)
            if record == PROBE and words * 8 == 40:
                tag, value, value2 = struct.unpack_from("<20xIQQ", data, at)
                found += [(value, value2, tag)] if FIRST_NUMBER <= value < FIRST_NUMBER + RUNS_MAX else []
            if not words:
                raise harness.HarnessError("a record of unknown size")
            at += words * 8
        at = end + -size % 8
    return found


class Machine(harness.TestCase):
    def setUp(self):
        super().setUp()
        patch = unittest.mock.patch.object(harness, "OUT", harness.BUILD / "machine")
        patch.start()
        self.addCleanup(patch.stop)

    def start_machine(self, *arguments):
        daemon = self.start(harness.Daemon, *arguments)
        machine = self.start(harness.Process, "machine", [MACHINE])
        machine.wait_ready(lambda: machine.line("ready"))
        return daemon, machine, harness.wait_target(daemon, machine.pid)

    def log_of(self, machine):
        machine.stop()
        return Log(machine.stdout())

    def check(self, xspace, log):
        """Each run of the log that lies in the window is one here, with the same number and operations."""
        begin, end = (xspace.plane_stats["Task Environment"][name] for name in ("profile_start_time", "profile_stop_time"))
        to_ns = lambda ps: begin + ps // 1000
        ops = sorted((to_ns(e.start_ps), name) for name, events in xspace.op_events().items() for e in events)
        starts = [start for start, _ in ops]
        runs = sorted((to_ns(e.start_ps), to_ns(e.start_ps + e.duration_ps), e) for e in xspace.events("machine_run") if "cut" not in e.stats)
        own = [run for run in log.runs if begin <= run[0] and run[1] <= end]
        # The log's times are outside of ours: of a run at an edge of the window, ours can lie within it.
        at_edges = [run for run in log.runs if run[0] < begin < run[1] or run[0] < end < run[1]]
        runs = [run for run in runs if not any(edge[0] <= run[0] <= edge[1] for edge in at_edges)]
        self.assertGreater(len(own), 100)
        self.assertEqual(len(runs), len(own))
        for (start, stop, _), (own_start, own_stop, _, names) in zip(runs, own):
            self.assertLessEqual(own_start, start)
            self.assertLess(stop, own_stop + APART_NS)
            self.assertEqual([n for _, n in ops[bisect.bisect_left(starts, start):bisect.bisect_left(starts, stop)]], names)
        return runs, own

    def test_runs_and_operations_are_those_of_its_own_log(self):
        daemon, machine, target = self.start_machine()
        self.assertIn("Machine", target["runtime"])
        recording = self.directory / "recording.tfp"
        command = harness.ctl_capture(daemon, [machine.pid], self.directory / "live", "--level", 2, "--record", recording)
        self.assertEqual(command.status, OK, command.stderr)
        xspace = harness.XSpace(harness.xspace_files(self.directory / "live")[0])
        runs, own = self.check(xspace, self.log_of(machine))
        self.assertFalse([w for w in xspace.warnings if "not shown" in w or "lost" in w.lower()], xspace.warnings)
        self.assertEqual({v for v, *_ in run_values(recording) if v in {number for *_, number, _ in own}}, {number for *_, number, _ in own})
        for value, value2, tag in run_values(recording):
            self.assertEqual((value2, tag), (~value & (1 << 64) - 1, value * 3 & (1 << 32) - 1))
        self.assertLess(abs(len(xspace.events("span turning")) - len(runs)), 3)
        print(f"     {len(own)} runs, {sum(len(names) for *_, names in own)} operations")
        # Names of numbers are in the recording: nothing else of the target is needed.
        replay = harness.run(harness.OUT / "tfprofctl", "replay", recording, "-o", self.directory / "replayed", "--json")
        self.assertEqual(replay.status, OK, replay.stderr)
        live, replayed = (harness.xspace_files(self.directory / name)[0].read_bytes() for name in ("live", "replayed"))
        self.assertEqual(live, replayed)

    def test_the_plan_says_where_its_functions_were_found(self):
        daemon, machine, _ = self.start_machine()
        plan = harness.ctl(daemon, "plan", "--pid", machine.pid, "--json").json
        found = {p["symbol"]: p["source"] for p in plan["targets"][0]["probes"]}
        self.assertEqual({name: source for name, source in found.items() if "machine" in name},
                         {**{f"machine_get_api_base, entry {n}": "function table" for n in (1, 2, 3, 4, 5, 6)},
                          "machine_touch": ".dynsym", "machine_call": ".dynsym"})

    def test_operations_of_a_process_that_joins_a_capture_have_their_names(self):
        daemon, first, _ = self.start_machine()
        capture = self.start(harness.Process, "capture", [harness.OUT / "tfprofctl", "--daemon", f"unix:{daemon.socket}", "capture", "--level", 2,
                                                          "--duration", "4s", "-o", self.directory])
        harness.wait_until(lambda: harness.ctl(daemon, "status", "--json").json["captures"], 10, "the capture has begun")
        harness.time.sleep(1)
        second = self.start(harness.Process, "machine", [MACHINE])
        self.assertIn(capture.wait(30), (OK, 6), capture.stderr())
        xspace = harness.XSpace(harness.xspace_files(self.directory)[0])
        self.assertTrue([w for w in xspace.warnings if f"Process {second.pid} " in w and " joined " in w], xspace.warnings)
        names = {full for _, _, _, run in self.log_of(first).runs for full in run}
        self.assertEqual(set(xspace.ops()), names)
        self.assertFalse([e for e in xspace.events() if "could not be read" in e.name])

    def test_the_flight_recorder_keeps_the_names_longer_than_their_records(self):
        daemon, machine, _ = self.start_machine("--recorder", "2", "--recorder-overhead", "100", "--recorder-last", "2s")
        harness.wait_until(lambda: harness.ctl(daemon, "status", "--json").json["recorder"]["processes"], 15, "it is recorded")
        harness.time.sleep(5)
        command = harness.ctl(daemon, "snapshot", "--last", "1s", "-o", self.directory / "snapshot", "--json")
        self.assertEqual(command.status, OK, command.stderr)
        self.check(harness.XSpace(harness.xspace_files(self.directory / "snapshot")[0]), self.log_of(machine))


if __name__ == "__main__":
    harness.main()
