#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a user's capture shows of processes of other users: nothing, though one has the pid of a process that is captured, or uses its CPU.
As root."""
import os
import pathlib
import re
import shutil
import struct
import subprocess
import time

import harness

FIXTURES = harness.BUILD / "fixtures"
OWNER, OTHER = 4242, 4243
OK, PART = 0, 6
HIDDEN = "another user's process"
# Others' processes: a name that nothing else has, at most 15 bytes.
HOG, REUSER = "canary_hog", "reuser"

FILE_HEAD, RECORDS = 24, 5
SECTION_HEAD = struct.Struct("<IIII")   # kind, size, check sum, 0
RECORD_HEAD = struct.Struct("<QIBBBB")  # time, thread, kind, site, size in words, target
OBJECT, SWITCH, WAKE, THREADS = 3, 4, 5, (6, 7, 8, 9, 10)
OBJECT_SIZE = 2112


def records(path):
    """(time, kind, {ids of threads and processes in it}) of every record of a recording."""
    data, at = pathlib.Path(path).read_bytes(), FILE_HEAD
    while at < len(data):
        kind, size, _, _ = SECTION_HEAD.unpack_from(data, at)
        at += SECTION_HEAD.size
        if kind == RECORDS:
            yield from records_of(data[at:at + size])
        at += (size + 7) & ~7


def records_of(data):
    at = 0
    while at < len(data):
        when, tid, kind, _, words, _ = RECORD_HEAD.unpack_from(data, at)
        ids = {tid}
        if kind in (SWITCH, WAKE, *THREADS):
            ids.add(struct.unpack_from("<I", data, at + RECORD_HEAD.size)[0])
        yield when, kind, ids
        assert words or kind == OBJECT, (at, kind)
        at += words * 8 or OBJECT_SIZE


class Own(harness.Process):
    """A program of tests/fixtures as a user, from a directory that every user can read. prefix: before its command."""

    def __init__(self, directory, user, program, *arguments, prefix=()):
        super().__init__(program, [*prefix, "setpriv", "--reuid", user, "--regid", user, "--clear-groups", directory / program, *arguments])
        self.wait_ready(lambda: self.line("ready"))


class TestCase(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.directory.chmod(0o755)
        self.files, self.out = self.directory / "files", self.directory / "out"
        self.files.mkdir()
        for path in (FIXTURES / "marking", FIXTURES / "libtensorflow_framework.so.2", harness.OUT / "tfprofctl",
                     harness.OUT / "tfprofd", harness.BUILD / "servers/hog"):
            shutil.copy(path, self.files)

    def server(self, prefix=()):
        return self.start(Own, self.files, OWNER, "marking", self.files / "libtensorflow_framework.so.2", prefix=prefix)

    def capture(self, name, user, *arguments):
        """A tfprofctl that captures as a user into a directory of that user."""
        out = self.out / name
        out.mkdir(parents=True)
        os.chown(out, user, user)
        argv = [self.files / "tfprofctl", "--daemon", self.daemon.address, "capture", *arguments, "--json", "-o", out / "logdir",
                "--requests", out / "requests", "--record", out / "recording.tfp"]
        process = subprocess.Popen([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, user=user, group=user,
                                   extra_groups=[], cwd="/", env={**os.environ, "no_proxy": "*"})
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        process.directory = out
        return process

    def finish(self, process):
        """The text that it printed, once it has captured."""
        out, err = process.communicate(timeout=harness.ANSWER_TIMEOUT_S)
        self.assertIn(process.returncode, (OK, PART), err)
        return out + err


class Reuse(TestCase):
    ROUNDS = 10_000 if harness.LONG else 1000

    def test_processes_with_the_pid_of_a_captured_one_are_not_captured(self):
        self.daemon = self.start(harness.Daemon)
        first, second = (self.server() for _ in range(2))
        for target in (first, second):
            harness.wait_target(self.daemon, target.pid)
        capture = self.capture("own", OWNER, "-d", "300s", "--pid", str(first.pid), "--pid", str(second.pid))
        harness.wait_until(lambda: any(c["elapsed_ns"] for c in self.captures()) or capture.poll(), 20, "the window opens")
        self.assertIsNone(capture.poll(), capture.poll() and capture.stderr.read())
        time.sleep(0.3)
        first.stop()
        # The first thread's last switch may come after the process was waited for.
        time.sleep(0.05)
        ended = time.monotonic_ns()
        reuse = self.start(harness.Process, "reuse", [FIXTURES / "reuse", first.pid, OTHER, self.ROUNDS])
        self.assertEqual(reuse.wait(harness.ANSWER_TIMEOUT_S), OK, reuse.stderr())
        self.assertTrue(reuse.line(f"rounds {self.ROUNDS}"), reuse.stdout())
        reused = time.monotonic_ns()
        self.assertEqual(harness.ctl(self.daemon, "stop").status, OK)
        self.finish(capture)
        found = list(records(capture.directory / "recording.tfp"))
        own = [r for r in found if first.pid in r[2]]
        print(f"     {self.ROUNDS} rounds in {(reused - ended) / 1e9:.1f} s; records of the first process: {len(own)}")
        self.assertTrue(own)
        self.assertEqual([r for r in own if r[0] > ended], [])
        # The capture of the other process has gone on.
        self.assertGreater(max(when for when, _, ids in found if second.pid in ids), reused)
        for path in capture.directory.rglob("*"):
            self.assertFalse(path.is_file() and REUSER.encode() in path.read_bytes(), path)

    def captures(self):
        return harness.ctl(self.daemon, "status", "--json").json["captures"]


class Neighbors(TestCase):
    """A server and another user's busy process on one CPU."""

    def setUp(self):
        super().setUp()
        cpu = max(os.sched_getaffinity(0))
        self.marking = self.server(("taskset", "-c", cpu))
        self.hog = self.start(Own, self.files, OTHER, "hog", cpu, HOG)

    def serve_with(self, *arguments):
        self.daemon = self.start(harness.Daemon, "--max-overhead", "100", *arguments)
        harness.wait_target(self.daemon, self.marking.pid)

    def check_hidden(self, directory, printed):
        path, = harness.xspace_files(directory / "logdir")
        text = str(harness.XSpace(path).proto)
        self.assertIn(HIDDEN.replace("'", r"\'"), text)
        for where in (text, printed):
            self.assertNotIn(HOG, where)
            self.assertFalse(re.search(rf"/{self.hog.pid}\b", where))
        for path in directory.rglob("*"):
            self.assertFalse(path.is_file() and HOG.encode() in path.read_bytes(), path)

    def test_a_user_s_capture_shows_no_other_user_s_threads_and_root_s_does(self):
        self.serve_with()
        capture = self.capture("own", OWNER, "-d", "1s", "--pid", str(self.marking.pid), "--level", "2", "--slowest", "5")
        self.check_hidden(capture.directory, self.finish(capture))
        self.assertFalse([r for r in records(capture.directory / "recording.tfp") if self.hog.pid in r[2]])
        requests = (capture.directory / "requests").read_text()
        self.assertIn(f'"tid":{self.marking.pid},', requests)
        self.assertNotIn(f'"tid":{self.hog.pid},', requests)
        replay = self.directory / "replay"
        replay.mkdir()
        done = harness.run(harness.OUT / "tfprofctl", "replay", capture.directory / "recording.tfp", "-o", replay / "logdir", "--json")
        self.assertEqual(done.status, OK, done.stderr)
        self.check_hidden(replay, done.stdout)

        capture = self.capture("root", 0, "-d", "1s", "--pid", str(self.marking.pid), "--level", "2")
        self.finish(capture)
        path, = harness.xspace_files(capture.directory / "logdir")
        text = str(harness.XSpace(path).proto)
        self.assertIn(f"{HOG}/{self.hog.pid}", text)
        self.assertNotIn(HIDDEN.replace("'", r"\'"), text)

    def test_what_the_recorder_keeps_shows_no_other_user_s_threads(self):
        """Users may take it."""
        self.serve_with("--recorder", 2, "--recorder-overhead", 100)
        time.sleep(2)
        out = self.directory / "snapshot"
        out.mkdir()
        done = harness.ctl(self.daemon, "snapshot", "--json", "-o", out / "logdir")
        self.assertIn(done.status, (OK, PART), done.stderr)
        self.check_hidden(out, done.stdout)


if __name__ == "__main__":
    harness.main()
