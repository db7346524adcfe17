#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""capture --record and replay: of a recording comes what its capture gave, byte for byte. As root."""
import os
import pathlib
import shutil
import signal
import subprocess
import time

import harness

CTL = harness.OUT / "tfprofctl"
OK, INTERNAL, USAGE, DENIED, NO_TARGET, NOTHING, LOSS, HOST = range(8)
GOLDEN = harness.ROOT / "tests/golden/half_plus_two.tfp"


class ReplayTestCase(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.live, self.again = self.directory / "live", self.directory / "again"
        self.recording = self.directory / "a.tfp"

    def replay(self, *arguments, file=None):
        return harness.run(CTL, "replay", file or self.recording, "-o", self.again, *arguments)

    def assert_refused(self, command, status, message):
        self.assertEqual((command.status, command.stdout), (status, ""), command.stderr)
        self.assertRegex(command.stderr, rf"^tfprofctl: .*{message}")
        self.assertFalse(self.again.exists())


class WithoutDaemon(ReplayTestCase):
    def test_a_recording_that_cannot_be_written_is_refused_before_a_daemon_is_asked(self):
        for path, message in ((self.directory / "no/a.tfp", "its parent directory does not exist"),
                              (self.directory, "Is a directory"), ("/sys/kernel/a.tfp", "cannot write the recording ")):
            command = harness.run(CTL, "--daemon", self.directory / "none", "capture", "--record", path, "-o", self.again)
            self.assert_refused(command, USAGE, message)
        self.assertEqual(list(self.directory.iterdir()), [])

    def test_a_file_that_is_not_a_recording_is_refused_with_a_reason(self):
        whole = GOLDEN.read_bytes()
        damaged = bytearray(whole)
        damaged[len(whole) // 2] ^= 1
        for content, message in ((b"", "it is not a recording"), (b"{}\n" * 20, "it is not a recording"),
                                 (whole[:-1], r"at byte \d+"), (whole[:1000], "it ends within a section"),
                                 (bytes(damaged), r"it is damaged: a checksum is wrong \(at byte \d+\)"),
                                 (whole[:12] + b"\x63" + whole[13:], "its format is version 99, and this program reads version 1"),
                                 (whole + b"more", "something follows its end")):
            self.recording.write_bytes(content)
            self.assert_refused(self.replay(), USAGE, f"cannot replay {self.recording}: .*{message}")
        self.assert_refused(self.replay(file=self.directory / "none"), USAGE, "No such file")
        self.assert_refused(self.replay(file=self.directory), USAGE, "Is a directory")
        self.assert_refused(self.replay(file="/dev/zero"), USAGE, "not a regular file")

    def test_usage_errors_end_with_2(self):
        for arguments, message in ((["replay"], "no recording: give the file"), (["replay", "a", "b"], "unexpected argument 'b'"),
                                   (["replay", "a", "--pid", "1"], "is not an option of this command"),
                                   (["capture", "--record"], "requires an argument")):
            command = harness.run(CTL, *arguments)
            self.assertEqual(command.status, USAGE)
            self.assertIn(message, command.stderr)

    def test_the_run_has_the_time_of_the_capture(self):
        command = harness.run(CTL, "replay", GOLDEN, "-o", self.again, "--json", env={"TZ": "UTC"})
        self.assertEqual((command.status, command.stderr), (OK, ""))
        self.assertEqual(pathlib.Path(command.json["file"]).parent.name, "2026_11_21_19_29_53")
        self.assertEqual(command.json["recording"], str(GOLDEN))


class WithDaemon(ReplayTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = harness.NativeServer(["layered"], self_load=1)
        cls.addClassCleanup(cls.server.stop)
        cls.daemon = harness.Daemon()
        cls.addClassCleanup(cls.daemon.stop)
        harness.wait_target(cls.daemon, cls.server.pid)

    def capture_argv(self, *arguments):
        return [CTL, "--daemon", f"unix:{self.daemon.socket}", "capture", "--pid", self.server.pid, "-o", self.live,
                "--record", self.recording, *arguments]

    def assert_same(self, captured, shown=()):
        """All outputs of a capture that has just been made, and those of its replay, but for their own places."""
        replayed = self.replay(*shown)
        self.assertEqual(replayed.status, captured.status, replayed.stderr)
        files = [harness.xspace_files(d) for d in (self.live, self.again)]
        self.assertEqual([len(f) for f in files], [1, 1])
        self.assertEqual(*(f[0].read_bytes() for f in files))
        texts = [text.replace(str(files[i][0]), "RUN").replace(str(d), "LOGDIR")
                 for i, (text, d) in enumerate(((captured.stdout, self.live), (replayed.stdout, self.again)))]
        self.assertEqual(*texts)
        self.assertIn(str(self.recording), texts[0])
        for d in (self.live, self.again):
            shutil.rmtree(d)

    def test_a_replay_gives_the_result_of_the_capture_at_every_level_and_in_every_form(self):
        for arguments, shown in ((["--level", 1], []), (["--level", 2], ["--json"]), (["--level", 3], []),
                                 (["--level", 3], ["--json", "--explain"]), (["--ops=entry"], ["--json"]),
                                 (["--max-overhead", "1", "--level", 3], []), (["--max-overhead", "20"], ["--json"])):
            # Ops that are sampled need some slices.
            duration = "2s" if "20" in arguments else "300ms"
            captured = harness.run(*self.capture_argv("--duration", duration, *arguments, *shown))
            self.assertIn(captured.status, (OK, LOSS), captured.stderr)
            self.assert_same(captured, shown)

    def test_a_replay_shows_the_plan(self):
        captured = harness.run(*self.capture_argv("--duration", "500ms", "--explain"))
        self.assertIn(captured.status, (OK, LOSS), captured.stderr)
        replayed = self.replay("--explain")
        self.assertEqual(replayed.stderr, captured.stderr)
        self.assertIn("Forecast:", replayed.stderr)

    def test_a_recording_of_many_pieces_is_complete(self):
        captured = harness.run(*self.capture_argv("--duration", "2s", "--level", 3, "--json"))
        self.assertIn(captured.status, (OK, LOSS), captured.stderr)
        self.assertGreater(self.recording.stat().st_size, 5 << 20)
        # A record takes its own bytes and no more.
        self.assertLess(self.recording.stat().st_size, captured.json["records"] * 40 + (1 << 20))
        self.assert_same(captured, ["--json"])

    def test_processes_that_end_in_the_window_are_reported_again(self):
        server = self.start(harness.NativeServer, ["half_plus_two"], self_load=1, http=False)
        harness.wait_target(self.daemon, server.pid)
        process = subprocess.Popen([str(a) for a in self.capture_argv("--duration", "2s", "--pid", server.pid)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(1.2)
        server.send(signal.SIGKILL)
        stdout, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, LOSS, stderr)
        self.assertIn(f"Process {server.pid} (native_server) ended", stdout)
        self.assert_same(harness.Command(process.returncode, stdout, stderr))

    def test_an_interrupt_leaves_no_partial_recording_and_keeps_the_existing_one(self):
        self.recording.write_text("an earlier one")
        process = subprocess.Popen([str(a) for a in self.capture_argv("--duration", "60s")], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        time.sleep(1)
        self.assertEqual(len(list(self.directory.glob(".a.tfp.*.tmp"))), 1)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=10)
        self.assertEqual(process.returncode, INTERNAL)
        self.assertIn("canceled: nothing was written", stderr)
        self.assertEqual(list(self.directory.iterdir()), [self.recording])
        self.assertEqual(self.recording.read_text(), "an earlier one")

    def test_a_full_disk_is_an_error_that_leaves_nothing(self):
        small = self.directory / "small"
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", small], check=True)
        self.addCleanup(subprocess.run, ["umount", small], check=True)
        command = harness.run(*self.capture_argv("--duration", "500ms", "--record", small / "a.tfp"))
        self.assertEqual(command.status, INTERNAL)
        self.assertRegex(command.stderr, "cannot write the recording .*: No space left on device; nothing was written")
        self.assertEqual(os.listdir(small), [])
        self.assertFalse(self.live.exists())

    def test_without_record_there_is_no_recording(self):
        command = harness.ctl(self.daemon, "capture", "--pid", self.server.pid, "--duration", "500ms", "-o", self.live, "--json")
        self.assertEqual((command.status, command.json["recording"]), (OK, None))


if __name__ == "__main__":
    harness.main()
