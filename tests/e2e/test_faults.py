#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the daemon and tfprofctl do without space on a file system, and without descriptors. As root."""
import contextlib
import os
import re
import socket
import subprocess

import harness

OK, INTERNAL, LOSS, HOST = 0, 1, 6, 7
NO_SPACE = "No space left on device"
# A name that the daemon itself uses: it does not trust a directory that has others.
FILLER = "audit.log.1"


class TestCase(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = cls.start_shared(harness.NativeServer, models=("half_plus_two",))

    def setUp(self):
        super().setUp()
        self.directory.chmod(0o755)
        self.before = harness.bpf_objects()
        self.load = self.start(harness.Load, self.server)

    def small(self, name, size="64k"):
        """A file system of this size."""
        path = self.directory / name
        path.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "none", path], check=True)
        # What is in it may be open for as long as its daemon ends.
        self.addCleanup(subprocess.run, ["umount", "-l", path], check=True)
        return path

    def capture(self, daemon, *arguments, logdir="logs", status=OK):
        command = harness.ctl_capture(daemon, [self.server.pid], self.directory / logdir, *arguments, duration="200ms")
        self.assertEqual(command.status, status, command.stderr)
        return command

    def assert_unharmed(self, daemon=None):
        self.assertEqual(harness.leftovers(self.before, 3, daemon), [])
        self.assertEqual(self.load.finish()["errors"], 0)


def fill(path, left=0):
    """A file that takes all space of its file system, except so many bytes."""
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    os.truncate(path, path.stat().st_size - left)


class FullStateDirectory(TestCase):
    def audit_lines(self, state):
        """Those of the file, each of which is whole."""
        text = (state / "audit.log").read_text()
        self.assertTrue(text.endswith("\n"), text[-200:])
        lines = text.splitlines()
        for line in lines:
            self.assertRegex(line, r'^time=\S+Z verdict=\w+ action=\w+( \w+=([^" ]+|"[^"]*"))+$')
            self.assertEqual(line.count("time="), 1)
        return lines

    def missing(self, lines):
        """How many lines those say to be missing."""
        return sum(int(m[1]) for line in lines if
                   (m := re.search(rf'verdict=lost action=log reason="(\d+) lines? could not be written here: {NO_SPACE}"$', line)))

    def test_a_capture_works_and_the_daemon_states_what_it_cannot_store_and_stores_it_later(self):
        state = self.small("state")
        fill(state / FILLER)
        daemon = self.start(harness.Daemon, "--state-dir", state)
        self.assertGreater(self.capture(daemon).json["runs"], 0)
        for what in ("the audit log audit.log", "a plan in the state directory"):
            self.assertRegex(daemon.stderr(), rf"cannot (write|store) {what}: {NO_SPACE}; ")
        # What a busy machine measures is not to be stored.
        measured = lambda: self.capture(daemon) and f"cannot store what probes cost on this machine: {NO_SPACE}; " in daemon.stderr()
        harness.wait_until(measured, 20, "the cost of probes is to be stored")
        self.assertEqual([(state / "audit.log").read_text(), os.listdir(state / "plans"), os.listdir(state / "cache")], ["", [], []])
        (state / FILLER).unlink()
        self.capture(daemon)
        self.assertGreaterEqual(self.missing(self.audit_lines(state)[:1]), 3)
        # The plans are in the memory of this daemon; the next one makes them again, and keeps them.
        self.assertEqual(daemon.stop(), 0)
        daemon = self.start(harness.Daemon, "--state-dir", state)
        self.assertGreater(self.capture(daemon).json["runs"], 0)
        self.assertNotIn("cannot", daemon.stderr())
        plans = list((state / "plans").iterdir())
        self.assertTrue(plans and all(re.search(r"\nend [0-9a-f]{16}\n$", plan.read_text()) for plan in plans), plans)
        harness.wait_until(lambda: self.capture(daemon) and os.listdir(state / "cache") == ["calibration"], 20, "the cost of probes is stored")
        self.audit_lines(state)
        self.assert_unharmed(daemon)

    def test_a_file_system_that_becomes_full_leaves_whole_lines_and_the_number_of_the_others(self):
        state = self.small("state", "4m")
        daemon = self.start(harness.Daemon, "--state-dir", state)
        self.capture(daemon)
        self.assertEqual(self.missing(self.audit_lines(state)), 0)
        fill(state / FILLER)
        of_captures = lambda: [line for line in self.audit_lines(state) if re.search(r"verdict=(allow|start|stop) action=capture ", line)]
        count = len(of_captures())
        # A page of the file has room for some of their lines, and not for all.
        for _ in range(12):
            self.capture(daemon)
        self.assertGreater(len(of_captures()), count)
        self.assertLess(len(of_captures()), count + 3 * 12)
        self.assertIn(f"cannot write the audit log audit.log: {NO_SPACE}; its lines are only in the journal, or in this log", daemon.stderr())
        (state / FILLER).unlink()
        self.capture(daemon)
        self.assertEqual(len(of_captures()) + self.missing(self.audit_lines(state)), count + 3 * 13)
        shown = harness.run(harness.OUT / "tfprofctl", "audit", state)
        self.assertIn("could not be written here", shown.stdout)
        self.assert_unharmed(daemon)


class FewDescriptors(TestCase):
    """Of the limit that the daemon was started with."""

    def limited(self, soft, hard):
        return ["prlimit", f"--nofile={soft}:{hard}"]

    def connect_all(self, daemon):
        """As many connections as the daemon has room for, and some more; nothing is sent on them."""
        connections = contextlib.ExitStack()
        for _ in range(300):
            s = connections.enter_context(socket.socket())
            s.settimeout(1)
            try:
                s.connect(("127.0.0.1", daemon.port))
            except OSError:
                break
        return connections

    def test_with_too_few_it_does_not_start_and_states_what_to_raise(self):
        for limit in (16, 24, 48, 100, 200, 255):
            command = harness.run(*self.limited(limit, limit), harness.OUT / "tfprofd", "--foreground", "--no-listen", "--socket", self.directory / "s",
                                  "--state-dir", self.directory / "state", timeout=20)
            self.assertEqual((command.status, command.stdout), (HOST, ""))
            self.assertEqual(command.stderr, f"tfprofd: few-files: RLIMIT_NOFILE is {limit}: the daemon needs at least 256; "
                                             "raise it: LimitNOFILE=, or ulimit -Hn\n")
        self.assertEqual(os.listdir(self.directory), [])
        self.assert_unharmed()

    def test_a_low_limit_that_may_be_raised_is_raised(self):
        daemon = self.start(harness.Daemon, prefix=self.limited(32, 4096))
        self.capture(daemon)
        self.assert_unharmed(daemon)

    def test_captures_work_or_fail_with_the_remedy_while_clients_hold_all_and_work_afterwards(self):
        for limit in (256, 280):
            daemon = self.start(harness.Daemon, prefix=self.limited(limit, limit))
            roles, failed = daemon.wait_roles(), 0
            for step in range(3):
                with self.connect_all(daemon):
                    command = harness.ctl_capture(daemon, [self.server.pid], self.directory / "logs", duration="100ms")
                    if command.status != OK:
                        failed += 1
                        self.assertEqual(command.status, INTERNAL, command.stderr)
                        self.assertRegex(command.stderr, "Too many open files.*; raise the daemon's RLIMIT_NOFILE")
                # The connections are closed within moments, of which the daemon learns by events.
                harness.wait_until(lambda: len(os.listdir(f"/proc/{daemon.broker()}/fd")) < 150, 1, "the descriptors are free")
                self.capture(daemon)
            print(f"     {limit} descriptors: {failed} of 3 captures failed")
            self.assertGreater(failed, 0)
            self.assertEqual(daemon.roles(), roles)
            self.assertEqual(harness.leftovers(self.before, 3, daemon), [])
            self.assertNotIn("no longer a target", daemon.stderr())
            self.assertEqual(daemon.stop(), 0)
        self.assert_unharmed()


class FullOutput(TestCase):
    """Of tfprofctl."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.daemon = cls.start_shared(harness.Daemon, "--recorder", "1")
        harness.wait_target(cls.daemon, cls.server.pid)

    def assert_nothing_in(self, path, command, what):
        self.assertEqual(command.status, INTERNAL)
        self.assertRegex(command.stderr, rf"^tfprofctl: cannot write {what} {path}.*: {NO_SPACE}; nothing was written\n$")
        self.assertEqual(list(path.iterdir()), [])
        self.assertEqual(self.load.finish()["errors"], 0)

    def test_a_capture_is_written_whole_or_not_at_all(self):
        path = self.small("full", "16k")
        command = self.capture(self.daemon, logdir="full/logs", status=INTERNAL)
        self.assert_nothing_in(path, command, "the capture to")

    def test_so_is_a_snapshot_and_the_recorder_goes_on(self):
        path = self.small("full", "16k")
        take = lambda where: harness.ctl(self.daemon, "snapshot", "--last", "1s", "-o", where, "--json")
        harness.wait_until(lambda: take(self.directory / "logs").status in (OK, LOSS), 10, "something is recorded")
        refused, later = take(path / "logs"), take(self.directory / "logs")
        self.assertIn(later.status, (OK, LOSS), later.stderr)
        self.assert_nothing_in(path, refused, "the capture to")

    def test_so_is_a_list_of_requests(self):
        path = self.small("full", "4k")
        command = self.capture(self.daemon, "--requests", path / "requests", status=INTERNAL)
        self.assert_nothing_in(path, command, "the requests to")
        self.assertEqual(harness.xspace_files(self.directory / "logs"), [])


if __name__ == "__main__":
    harness.main()
