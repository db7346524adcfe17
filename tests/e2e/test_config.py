#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon's configuration, and the options of tfprofctl that concern requests: what they change, how bad ones are explained,
and that nothing half is left. As root."""
import json
import signal
import subprocess
import time

import harness

CTL = harness.OUT / "tfprofctl"
OK, INTERNAL, USAGE, DENIED, NO_TARGET, NOTHING = range(6)


class Config(harness.TestCase):
    def config(self, text):
        path = self.directory / "tfprofd.ini"
        path.write_text(text)
        return path

    def test_a_target_s_configuration_applies_to_its_own_port_only(self):
        server = self.start(harness.NativeServer, models=("half_plus_two",), self_load=1, http=False)
        other = self.start(harness.NativeServer, models=("half_plus_two",), self_load=1, http=False)
        daemon = self.start(harness.Daemon, "--config", self.config(f"[target {server.pid}]\nlevel = 1\nrequests-count = 1000000\n"))
        address = harness.wait_target(daemon, server.pid)["address"]
        other_address = harness.wait_target(daemon, other.pid)["address"]
        own = harness.response_xspace(harness.profile(address, duration_ms=300))
        self.assertFalse(own.ops())
        self.assertTrue(own.events())
        self.assertTrue(any("requests that were asked for" in warning for warning in own.warnings), own.warnings)
        for where in (other_address, daemon.address):
            xspace = harness.response_xspace(harness.profile(where, duration_ms=300))
            self.assertTrue(xspace.ops())
            self.assertFalse(any("requests" in warning for warning in xspace.warnings), xspace.warnings)

    def test_an_error_in_the_configuration_is_reported_with_its_line(self):
        for text, message in (("[target a]\nlevle = 1\n", ":2: unknown key 'levle'"), ("[targets]\n", ":1: unknown section")):
            path = self.config(text)
            command = harness.run(harness.OUT / "tfprofd", "--config", path, "--foreground", "--no-listen",
                                  "--socket", self.directory / "s", "--state-dir", self.directory / "state")
            self.assertEqual(command.status, USAGE)
            self.assertIn(f"{path}{message}", command.stderr)


class Options(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.logdir = self.directory / "logdir"
        self.file = self.directory / "requests.ndjson"

    def test_invalid_options_are_explained(self):
        for words, message in ((["--slowest", "0"], "must be 1 to 1000"), (["--slowest", "1001"], "must be 1 to 1000"),
                               (["--slowest", "two"], "invalid number"), (["--requests-count", "0"], "must be 1 to"),
                               (["--requests-count", "-1"], "invalid number"), (["--slower-than", "fast"], "invalid duration"),
                               (["--path", ""], "--path must have"), (["--model", "x" * 5000], "--model must have"),
                               (["--requests", self.directory], "Is a directory"),
                               (["--requests", self.directory / "none" / "x"], "No such file")):
            with self.subTest(words=words):
                command = harness.ctl(None, "capture", "-o", self.logdir, *words)
                self.assertEqual(command.status, USAGE, command.stderr)
                self.assertIn(message, command.stderr)
                self.assertEqual(list(self.directory.iterdir()), [])

    def test_a_file_is_complete_or_absent(self):
        server = self.start(harness.NativeServer, models=("half_plus_two",), self_load=1, http=False)
        daemon = self.start(harness.Daemon)
        harness.wait_target(daemon, server.pid)
        command = harness.ctl_capture(daemon, [server.pid], self.logdir, "--requests", self.file, "--slowest", "3", duration="300ms")
        self.assertEqual(command.status, OK, command.stderr)
        lines = [json.loads(line) for line in self.file.read_text().splitlines()]
        shown = command.json["requests"]
        self.assertEqual(len(lines), sum(shown[key] for key in ("whole", "cut", "reset", "lost")))
        self.assertEqual(len(command.json["slowest"]), min(3, shown["whole"]))
        self.assertEqual(command.json["requests_file"], str(self.file))
        self.file.write_text("what was there")
        running = subprocess.Popen([CTL, "--daemon", f"unix:{daemon.socket}", "capture", "--pid", str(server.pid), "-d", "30s",
                                    "-o", self.logdir, "--requests", self.file], stderr=subprocess.DEVNULL)
        time.sleep(2)
        self.assertTrue(list(self.directory.glob(f".{self.file.name}*")))
        running.send_signal(signal.SIGINT)
        self.assertEqual(running.wait(20), INTERNAL)
        self.assertEqual(self.file.read_text(), "what was there")
        self.assertFalse(list(self.directory.glob(f".{self.file.name}*")))

    def test_a_capture_of_n_requests_ends_after_its_duration_without_them(self):
        server = self.start(harness.NativeServer, models=("half_plus_two",), self_load=1, http=False)
        daemon = self.start(harness.Daemon)
        harness.wait_target(daemon, server.pid)
        command = harness.ctl_capture(daemon, [server.pid], self.logdir, "--requests-count", "5", "--model", "none of them", duration="300ms")
        self.assertEqual(command.status, NOTHING, command.stderr)
        self.assertEqual(command.json["requests"]["filter"], {"slower_than_ns": 0, "path": None, "model": "none of them", "requests_count": 5})
        self.assertTrue(any("0 of the 5 requests" in warning for warning in command.json["warnings"]), command.json["warnings"])
        self.assertFalse(harness.xspace_files(self.logdir))


if __name__ == "__main__":
    harness.main()
