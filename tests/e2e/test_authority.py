#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may do what: callers of many kinds, each call, and when a caller's authority ends. As root."""
import collections
import datetime
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import harness
from test_discovery import FIXTURES, NAME
from test_grpc import TOOLS

OWNER, OTHER, OPERATOR, WATCHER, OPERATORS = 4721, 4722, 4723, 4724, 4800
OK, INTERNAL, USAGE, DENIED, NO_TARGET, NOTHING, LOSS = range(7)
CALLS = ("targets", "capture", "plan", "monitor", "stop", "snapshot", "status")
# Calls that name a process.
NAMED = ("capture", "plan", "stop")
KTHREADD = 2
# Lines of the audit log per minute, user and kind.
LINES_MAX = 5


def as_user(uid, *groups):
    groups = ["--groups", ",".join(map(str, groups))] if groups else ["--clear-groups"]
    return ["setpriv", "--reuid", str(uid), "--regid", str(uid), *groups]


# A container without a user namespace, as most are: its root is the host's user 0, with fewer capabilities and other process ids.
CONTAINER_ROOT = ["unshare", "--pid", "--fork", "--", "setpriv", "--bounding-set", "-all", "--inh-caps", "-all"]
# May see everything, and is none of the callers: the audit log has its lines apart from theirs.
OBSERVER = [*as_user(WATCHER), "--inh-caps", "+sys_ptrace", "--ambient-caps", "+sys_ptrace"]
OTHER_USER_NAMESPACE = [*as_user(OWNER), "unshare", "--user", "--map-root-user"]


class Authority(harness.TestCase):
    configuration = ""

    @classmethod
    def setUpClass(cls):
        """A daemon, and everything that callers of any user need in a directory that they can reach."""
        super().setUpClass()
        cls.public = pathlib.Path(tempfile.mkdtemp(prefix="tfprofd-e2e-"))
        cls.addClassCleanup(shutil.rmtree, cls.public, ignore_errors=True)
        for file in (harness.OUT / "tfprofctl", harness.OUT / "tfprofd", FIXTURES / "actor", FIXTURES / NAME, TOOLS / "grpcurl"):
            shutil.copy(file, cls.public)
        cls.public.chmod(0o755)
        (cls.public / "tfprofd.conf").write_text(cls.configuration)

    @classmethod
    def serve(cls, *arguments):
        daemon = cls.start_shared(harness.Daemon, "--config", cls.public / "tfprofd.conf", *arguments)
        os.chmod(daemon.socket, 0o666)
        return daemon

    @classmethod
    def make_actor(cls, user, *actions):
        """A process of a user with a runtime."""
        argv = [*(as_user(user) if user else []), cls.public / "actor", *actions, f"load={cls.public / NAME}"]
        process = harness.Process("actor", argv)
        process.wait_ready(lambda: process.line("did load=.*"))
        return process

    @classmethod
    def actor(cls, *how):
        process = cls.make_actor(*how)
        cls.addClassCleanup(process.stop)
        return process

    def setUp(self):
        super().setUp()
        self.directory.chmod(0o755)

    def logdir(self):
        """A directory that everyone can write to."""
        path = self.directory / f"logdir-{len(os.listdir(self.directory))}"
        path.mkdir()
        path.chmod(0o777)
        return path

    @classmethod
    def call(cls, caller, *words, program="tfprofctl", timeout=60):
        argv = [*map(str, caller), str(cls.public / program), *map(str, words)]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd="/", timeout=timeout, check=False)
        return harness.Command(done.returncode, done.stdout, done.stderr)

    @classmethod
    def ctl(cls, caller, *words):
        return cls.call(caller, "--daemon", f"unix:{cls.daemon.socket}", *words)

    def begin(self, caller, pid, duration="60s"):
        """A capture by a caller that goes on."""
        process = subprocess.Popen([*map(str, caller), self.public / "tfprofctl", "--daemon", f"unix:{self.daemon.socket}", "capture", "--pid",
                                    str(pid), "-d", duration, "-o", self.logdir()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        harness.wait_until(lambda: pid in self.captured(), 10, "the capture runs")
        return process

    def captured(self):
        """The processes of captures whose window is open."""
        captures = json.loads(self.ctl(OBSERVER, "status", "--json").stdout)["captures"]
        return {pid for capture in captures if capture["elapsed_ns"] for pid in capture["pids"]}


class Matrix(Authority):
    configuration = f"[access operators]\ngroups = {OPERATORS}\ntarget-users = {OWNER}\nmax-level = 1\nmax-duration = 1\n"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.daemon = cls.serve("--recorder", 1, "--recorder-overhead", 100)
        cls.owners, cls.roots, cls.hidden = cls.actor(OWNER), cls.actor(None), cls.actor(OWNER, "hide")
        cls.recycled = cls.recycle()
        for process in (cls.owners, cls.roots, cls.hidden, cls.recycled):
            cls.wait_target(process)
        harness.wait_until(lambda: json.loads(cls.ctl(OBSERVER, "status", "--json").stdout)["recorder"]["processes"] >= 4, 10, "they are recorded")

    @classmethod
    def wait_target(cls, process):
        harness.wait_until(lambda: process.pid in cls.targets(OBSERVER), 10, f"tfprofd finds process {process.pid}")

    @classmethod
    def targets(cls, caller):
        return {t["pid"] for t in json.loads(cls.ctl(caller, "targets", "--json").stdout or '{"targets": []}')["targets"]}

    @classmethod
    def recycle(cls):
        """A process of another user with the process id of one of the owner's, which the daemon knew."""
        for _ in range(50):
            old = cls.make_actor(OWNER)
            cls.wait_target(old)
            old.stop()
            pathlib.Path("/proc/sys/kernel/ns_last_pid").write_text(str(old.pid - 1))
            new = cls.make_actor(OTHER)
            if new.pid == old.pid:
                cls.addClassCleanup(new.stop)
                return new
            new.stop()
        raise harness.HarnessError("the process id was not given out again")

    def permitted(self, caller, name, pid, beginner):
        """Whether a call has something of the process."""
        if name == "targets":
            return pid in self.targets(caller)
        if name == "capture":
            command = self.ctl(caller, "capture", "--pid", pid, "-d", "100ms", "--level", 1, "-o", self.logdir())
            self.assertIn(command.status, (OK, DENIED, NO_TARGET, NOTHING, LOSS), command.stderr)
            return command.status not in (DENIED, NO_TARGET)
        if name == "plan":
            command = self.ctl(caller, "plan", "--pid", pid)
            self.assertIn(command.status, (OK, DENIED, NO_TARGET), command.stderr)
            return command.status == OK
        if name == "monitor":
            command = self.call(caller, "-plaintext", "-authority", "localhost", "-unix", self.daemon.socket, "tensorflow.ProfilerService/Monitor", program="grpcurl")
            self.assertEqual(command.status, OK, command.stderr)
            self.assertIn("to profile", command.stdout)
            return f"  {pid} " in command.stdout
        if name == "stop":
            running = self.begin(beginner, pid) if beginner is not None else None
            self.ctl(caller, "stop", "--pid", pid)
            if running:
                time.sleep(0.1)
                stopped = pid not in self.captured()
                # Not canceled, which a user may do a few times only.
                self.ctl(OBSERVER, "stop")
                running.wait(20)
                harness.wait_until(lambda: pid not in self.captured(), 10, "it has ended")
            return bool(running) and stopped
        if name == "snapshot":
            command = self.ctl(caller, "snapshot", "--json", "-o", self.logdir())
            self.assertIn(command.status, (OK, DENIED, NOTHING, LOSS), command.stderr)
            return command.status != DENIED and pid != KTHREADD
        return pid in {t["pid"] for t in json.loads(self.ctl(caller, "status", "--json").stdout)["targets"]}

    def audited(self, user, call, since):
        """The lines of the audit log about calls of a user since a time."""
        done = harness.run(harness.OUT / "tfprofctl", "audit", "--json", self.daemon.state)
        return [line for line in done.json["lines"] if line["time"] >= since and (line.get("client_uid"), line["action"]) == (user, call)
                and line["verdict"] in ("allow", "deny", "fail")]

    def wrong_line(self, user, call, pid, may, since):
        """What is wrong with the line of one call; None if nothing is."""
        try:
            lines = harness.wait_until(lambda: self.audited(user, call, since), 5, "a line")
        except harness.HarnessError:
            lines = []
        if call not in (*NAMED, "snapshot"):
            # What others own is not listed.
            verdict = "allow"
        elif pid == KTHREADD:
            verdict = "allow" if call == "snapshot" else "fail"
        else:
            verdict = "allow" if may else "deny"
        expected = (verdict, pid if call in NAMED else None)
        found = [(line["verdict"], line.get("target_pid")) for line in lines]
        return None if found == [expected] else f"the audit log has {found}, not {expected}"

    def test_every_caller_may_do_what_the_documented_table_allows_and_the_audit_log_has_each_call(self):
        root = []
        rows = (
            # caller, its user, process, who has begun a capture of it that is not the caller's, and what is permitted
            ("root", root, 0, self.owners, as_user(OWNER), "1111111"),
            ("same user", as_user(OWNER), OWNER, self.owners, root, "1111001"),
            ("other user", as_user(OTHER), OTHER, self.owners, root, "0000000"),
            ("operator", as_user(OPERATOR, OPERATORS), OPERATOR, self.owners, root, "1111001"),
            ("operator, another user's process", as_user(OPERATOR, OPERATORS), OPERATOR, self.roots, root, "0000000"),
            ("root of a container", CONTAINER_ROOT, 0, self.roots, root, "0000000"),
            ("recycled process id", as_user(OWNER), OWNER, self.recycled, root, "0000000"),
            ("kernel thread", root, 0, KTHREADD, None, "0000000"),
            ("process that is not dumpable", as_user(OWNER), OWNER, self.hidden, root, "0000000"),
            ("other user namespace", OTHER_USER_NAMESPACE, OWNER, self.owners, root, "0000000"),
        )
        wrong, cells = [], 0
        # No line is omitted because there are many of its kind.
        self.assertLessEqual(max(collections.Counter(row[2] for row in rows).values()), LINES_MAX)
        for name, caller, user, process, beginner, expected in rows:
            pid = process if isinstance(process, int) else process.pid
            for call, may in zip(CALLS, expected):
                cells += 1
                since = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
                if self.permitted(caller, call, pid, beginner) != (may == "1"):
                    wrong.append((name, call, f"should be {'permitted' if may == '1' else 'refused'}"))
                if problem := self.wrong_line(user, call, pid, may == "1", since):
                    wrong.append((name, call, problem))
        print(f"     {cells} cells, each with its line in the audit log")
        self.assertEqual(wrong, [])
        self.assertGreaterEqual(cells, 60)

    def test_a_section_limits_what_its_users_may_capture(self):
        operator = as_user(OPERATOR, OPERATORS)
        command = self.ctl(operator, "capture", "--pid", self.owners.pid, "-d", "100ms", "--level", 3, "--json", "-o", self.logdir())
        self.assertIn(command.status, (OK, NOTHING, LOSS), command.stderr)
        self.assertIn("The daemon's configuration limits your captures of these processes: level 1.", command.json["warnings"])
        command = self.ctl(operator, "capture", "--pid", self.owners.pid, "-d", "2s", "-o", self.logdir())
        self.assertIn("limits your captures of these processes to 1 s: use a shorter duration", command.stderr)


class Ends(Authority):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.daemon = cls.serve("--tcp-access", "user", "--memory=no", "--max-overhead", "50")
        cls.owners = cls.actor(OWNER)
        harness.wait_target(cls.daemon, cls.owners.pid)

    def links(self, before):
        """Loaded programs wait for the next capture: what is attached is a link."""
        return [left for left in harness.leftovers(before, 0, self.daemon) if left.startswith("link")]

    def test_probes_are_gone_once_the_client_is_even_if_the_front_does_not_report_it(self):
        before = harness.bpf_objects()
        client = self.begin([], self.owners.pid)
        self.assertTrue(self.links(before))
        front = self.daemon.front()
        os.kill(front, signal.SIGSTOP)
        try:
            client.kill()
            client.wait()
            harness.wait_until(lambda: not self.links(before), 5, "they are gone")
        finally:
            os.kill(front, signal.SIGCONT)
        # And the front goes on.
        self.assertIn(self.ctl([], "capture", "--pid", self.owners.pid, "-d", "100ms", "-o", self.logdir()).status, (OK, NOTHING, LOSS))

    def test_clients_on_TCP_have_what_is_configured_for_them(self):
        def targets(user):
            command = self.call(user, "--daemon", self.daemon.address, "targets", "--json")
            return [t["pid"] for t in json.loads(command.stdout or '{"targets": []}')["targets"]]
        self.assertIn(self.owners.pid, targets(as_user(OWNER)))
        self.assertNotIn(self.owners.pid, targets([]))
        self.assertIn(self.owners.pid, [t["pid"] for t in json.loads(self.ctl([], "targets", "--json").stdout)["targets"]])

    def test_the_ceiling_of_the_daemon_is_for_everyone_but_root(self):
        words = ("capture", "--pid", self.owners.pid, "-d", "100ms", "--memory=on", "--json")
        limited, free = self.ctl(as_user(OWNER), *words, "-o", self.logdir()), self.ctl([], *words, "-o", self.logdir())
        self.assertIn("The daemon's configuration limits your captures of these processes: 50 % of the processes' CPU time; no allocations.",
                      limited.json["warnings"])
        self.assertFalse([warning for warning in free.json["warnings"] if "limits your captures" in warning])


if __name__ == "__main__":
    harness.main()
