#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What becomes of a capture on a kernel that refuses one of the BPF programs: daemons of a test build whose scheduler's programs, or whose
program of probes, no verifier takes. As root."""
import re
import unittest.mock

import harness
from test_modes import Fixture

OK, LOSS, HOST = 0, 6, 7
REASON = r"R\d invalid mem access"
SWITCHES = ("on_switch", "on_waking", "on_wakeup_new")
# Until the program's file is read: in an emulator, too.
READ_S = 60


class Refused(harness.TestCase):
    def start_refused(self, build, *arguments):
        patch = unittest.mock.patch.object(harness, "OUT", harness.BUILD / build)
        patch.start()
        self.addCleanup(patch.stop)
        self.before = harness.bpf_objects()
        daemon, target = self.start(harness.Daemon, "--verbose", *arguments), self.start(Fixture)
        harness.wait_target(daemon, target.pid, READ_S)
        return daemon, target

    def findings(self, daemon):
        command = harness.ctl(daemon, "doctor", "--json")
        return command, [f for f in command.json["findings"] if f["code"] == "program-refused"], {f["code"] for f in command.json["findings"]}

    def assert_log(self, daemon, names):
        log = (daemon.state / "refused-programs.log").read_text()
        for name in names:
            self.assertRegex(log, rf"(?m)^{name}: {REASON}")
        self.assertIn("-- BEGIN PROG LOAD LOG --", log)
        # The last lines of each are in the broker's messages.
        for name in names:
            self.assertRegex(daemon.stderr(), rf"the kernel refused the BPF program {name}: {REASON}")

    def test_a_capture_without_the_scheduler_reports_it_everywhere(self):
        daemon, target = self.start_refused("refused-switches")
        command = harness.ctl_capture(daemon, [target.pid], self.directory, "--level", 2, duration="1s")
        self.assertEqual(command.status, LOSS, command.stderr)
        summary, xspace = command.json, harness.XSpace(harness.xspace_files(self.directory)[0])
        self.assertGreater(summary["runs"]["count"] if isinstance(summary["runs"], dict) else summary["runs"], 0)
        self.assertEqual([(s["kind"], s["refused"], s["at_ns"]) for s in summary["shed"]], [("scheduler switches", True, 0)])
        self.assertTrue(xspace.ops())
        warnings = [w for w in xspace.warnings if "scheduler switches" in w]
        self.assertEqual(len(warnings), 1, xspace.warnings)
        self.assertRegex(warnings[0], r"^Not captured: scheduler switches\. The kernel refused a BPF program or a probe")
        self.assert_on_overview(xspace, warnings)
        # Nothing is reported about what was not recorded.
        self.assertFalse([e for e in xspace.events() if e.name.startswith(("blocked: ", "waiting for a CPU"))])
        self.assertEqual(harness.leftovers(self.before, daemon=daemon), [])
        text = harness.ctl(daemon, "capture", "--pid", target.pid, "--duration", "300ms", "-o", self.directory)
        self.assertEqual(text.status, LOSS)
        self.assertIn("refused: scheduler switches, not captured because the kernel refused a BPF program or a probe", text.stdout)

        command, refused, codes = self.findings(daemon)
        self.assertEqual(command.status, OK)
        self.assertIn("ready", codes)
        self.assertEqual({f["severity"] for f in refused}, {"warning"})
        for name in SWITCHES:
            self.assertEqual(len([f for f in refused if re.search(rf"program {name}, so captures lack scheduler switches: {REASON}", f["text"])]),
                             1, refused)
        self.assert_log(daemon, SWITCHES)

    def test_the_recorder_and_its_snapshots_report_it_too(self):
        daemon, target = self.start_refused("refused-switches", "--recorder", "2", "--recorder-overhead", "100")
        harness.wait_recorded(daemon, target.pid)
        harness.time.sleep(1)
        command = harness.ctl(daemon, "snapshot", "--last", "1s", "-o", self.directory / "snapshot", "--json")
        self.assertEqual(command.status, LOSS, command.stderr)
        self.assertIn(("scheduler switches", True), [(s["kind"], s["refused"]) for s in command.json["shed"]])
        warnings = [w for w in command.json["warnings"] if "scheduler switches" in w]
        self.assertEqual(len(warnings), 1, warnings)
        self.assertRegex(warnings[0], "^Not captured: scheduler switches")

    def test_what_does_not_need_the_refused_programs_is_complete(self):
        daemon, target = self.start_refused("refused-switches")
        command = harness.ctl_capture(daemon, [target.pid], self.directory, "--level", 1, duration="500ms")
        self.assertEqual(command.status, OK, command.stderr)
        self.assertEqual(command.json["shed"], [])

    def test_a_recording_of_it_gives_the_same_result(self):
        daemon, target = self.start_refused("refused-switches")
        recording = self.directory / "recording.tfp"
        command = harness.ctl_capture(daemon, [target.pid], self.directory / "live", "--record", recording, duration="500ms")
        self.assertEqual(command.status, LOSS, command.stderr)
        replay = harness.run(harness.OUT / "tfprofctl", "replay", recording, "-o", self.directory / "replayed", "--json")
        self.assertEqual(replay.status, LOSS, replay.stderr)
        live, replayed = (harness.xspace_files(self.directory / name)[0].read_bytes() for name in ("live", "replayed"))
        self.assertEqual(live, replayed)
        self.assertEqual(command.json["shed"], replay.json["shed"])

    def test_a_capture_without_return_probes_has_no_allocations(self):
        self.check_returns_refused()

    def test_a_capture_by_perf_events_without_return_probes_has_no_allocations(self):
        self.check_returns_refused("--probe-links", "perf-event")

    def test_programs_that_the_kernel_has_skipped_count_as_lost_records(self):
        daemon = self.start(harness.Daemon, prefix=self.preload("skip_programs"))
        server = self.start(harness.NativeServer, ["half_plus_two"], self_load=1, http=False)
        harness.wait_target(daemon, server.pid)
        command = harness.ctl_capture(daemon, [server.pid], self.directory, duration="300ms")
        self.assertEqual(command.status, LOSS, command.stderr)
        self.assertGreater(command.json["dropped"], 5)
        self.assertIn(f"Up to {command.json['dropped']} records are missing because the kernel skipped BPF programs: another thread, or an interrupt, "
                      "was in the same one on that CPU.", command.json["warnings"])

    def test_without_requests_at_sockets_there_are_no_decrypted_ones_and_the_rest_is_captured(self):
        config = self.directory / "tfprofd.ini"
        config.write_text("[access tests]\nusers = root\ntarget-users = *\ndecrypted-requests = yes\n")
        daemon = self.start(harness.Daemon, "--config", config, prefix=self.preload("refuse_sockets"))
        server = self.start(harness.NativeServer, ["half_plus_two"], self_load=1, http=False)
        harness.wait_target(daemon, server.pid)
        command = harness.ctl_capture(daemon, [server.pid], self.directory, duration="300ms")
        self.assertEqual(command.status, LOSS, command.stderr)
        self.assertEqual({(s["kind"], s["refused"]) for s in command.json["shed"]}, {("requests at sockets", True), ("encrypted requests", True)})
        self.assertTrue(harness.XSpace(harness.xspace_files(self.directory)[0]).ops())

    @staticmethod
    def preload(name):
        return ["env", f"LD_PRELOAD={harness.BUILD / f'fixtures/{name}.so'}"]

    def check_returns_refused(self, *arguments):
        before = harness.bpf_objects()
        daemon = self.start(harness.Daemon, *arguments, prefix=self.preload("refuse_returns"))
        server = self.start(harness.NativeServer, ["half_plus_two"], self_load=1, http=False)
        harness.wait_target(daemon, server.pid)
        command = harness.ctl_capture(daemon, [server.pid], self.directory, "--level", 3, duration="1s")
        self.assertEqual(command.status, LOSS, command.stderr)
        self.assertEqual([(s["kind"], s["refused"]) for s in command.json["shed"]], [("allocations", True)])
        self.assertEqual(command.json["memory"], [])
        xspace = harness.XSpace(harness.xspace_files(self.directory)[0])
        self.assertTrue(xspace.ops() and xspace.events("SessionRun"))
        self.assertEqual(xspace.events("MemoryAllocation") + xspace.events("MemoryDeallocation"), [])
        self.assertEqual([w.partition(".")[0] for w in xspace.warnings], ["Not captured: allocations"])
        self.assertEqual(harness.leftovers(before, 60, daemon), [])
        # Without them everything is there.
        command = harness.ctl_capture(daemon, [server.pid], self.directory, "--level", 3, "--memory=off", duration="300ms")
        self.assertEqual((command.status, command.json["shed"]), (OK, []), command.stderr)

    def test_without_the_program_of_probes_nothing_is_captured_and_the_reason_is_given(self):
        daemon, target = self.start_refused("refused-probe")
        # Whoever is asked first.
        command, refused, codes = self.findings(daemon)
        self.assertEqual(command.status, HOST)
        self.assertNotIn("ready", codes)
        self.assertEqual([(f["severity"], bool(re.search(rf"program probe, which every capture needs: {REASON}", f["text"]))) for f in refused],
                         [("error", True)])
        command = harness.ctl_capture(daemon, [target.pid], self.directory, duration="500ms")
        self.assertEqual(command.status, HOST)
        self.assertRegex(command.stderr, rf"the kernel refused the BPF program probe: {REASON}")
        self.assertEqual(harness.xspace_files(self.directory), [])
        self.assert_log(daemon, ["probe"])
        self.assertEqual(harness.leftovers(self.before, daemon=daemon), [])
        self.assertTrue(target.running())


if __name__ == "__main__":
    harness.main()
