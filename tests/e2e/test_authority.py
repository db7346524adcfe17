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
from test_lifecycle import breakpoints
from test_supervisor import Client

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

    @classmethod
    def audit_lines(cls):
        return harness.run(harness.OUT / "tfprofctl", "audit", "--json", cls.daemon.state).json["lines"]

    def begin(self, caller, pid, duration="60s", every=False):
        """A capture by a caller that goes on: of the process, or of every one that the caller may profile."""
        which = [] if every else ["--pid", str(pid)]
        process = subprocess.Popen([*map(str, caller), self.public / "tfprofctl", "--daemon", f"unix:{self.daemon.socket}", "capture", *which,
                                    "-d", duration, "-o", self.logdir()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
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
        cls.processes = (cls.owners, cls.roots, cls.hidden, cls.recycled)
        for process in cls.processes:
            cls.wait_target(process)
        # Each has its line in the audit log then. That of the process whose id was given out again may have one already.
        harness.wait_until(lambda: {process.pid for process in cls.processes} <= cls.recorded(), 10, "they are recorded")

    @classmethod
    def wait_target(cls, process):
        harness.wait_until(lambda: process.pid in cls.targets(OBSERVER), 10, f"tfprofd finds process {process.pid}")

    @classmethod
    def recorded(cls):
        return {t["pid"] for t in json.loads(cls.ctl(OBSERVER, "status", "--json").stdout)["targets"] if t["measured"]}

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

    def audited(self, user, call, pid, since):
        """The lines of the audit log about calls of a user since a time, without those about processes of other tests, which the recorder adds, and
        of earlier calls for another process."""
        known = {pid} if call in NAMED else {None, KTHREADD, *(process.pid for process in self.processes)}
        return [line for line in self.audit_lines() if line["time"] >= since and (line.get("client_uid"), line["action"]) == (user, call)
                and line.get("target_pid") in known and line["verdict"] in ("allow", "deny", "fail")]

    def wrong_line(self, user, call, pid, may, since):
        """What is wrong with the line of one call; None if nothing is."""
        try:
            lines = harness.wait_until(lambda: self.audited(user, call, pid, since), 5, "a line")
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
        words = ("capture", "--pid", self.owners.pid, "-d", "100ms", "--memory=on", "--max-overhead", "60", "--json")
        limited, free = self.ctl(as_user(OWNER), *words, "-o", self.logdir()), self.ctl([], *words, "-o", self.logdir())
        self.assertIn("The daemon's configuration limits your captures of these processes: 50 % of the processes' CPU time; no allocations.",
                      limited.json["warnings"])
        self.assertFalse([warning for warning in free.json["warnings"] if "limits your captures" in warning])


class Reload(Authority):
    """Each test has a daemon of its own."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.owners, cls.others = cls.actor(OWNER), cls.actor(OTHER)

    def begin_daemon(self, text, *arguments, prefix=()):
        self.settings = self.directory / "tfprofd.conf"
        self.settings.write_text(text)
        self.daemon = type(self).daemon = self.start(harness.Daemon, "--config", self.settings, *arguments, prefix=prefix)
        os.chmod(self.daemon.socket, 0o666)
        for process in (self.owners, self.others):
            harness.wait_target(self.daemon, process.pid)

    def reload(self, text, expected="the configuration was reloaded"):
        count = self.daemon.stderr().count(expected)
        self.settings.write_text(text)
        self.daemon.send(signal.SIGHUP)
        harness.wait_until(lambda: self.daemon.stderr().count(expected) > count, 5, expected)

    def may(self, caller, process):
        status = self.ctl(caller, "plan", "--pid", process.pid).status
        self.assertIn(status, (OK, DENIED))
        return status == OK

    def probes(self, process):
        return breakpoints(process.pid, NAME)

    def audited(self, verdict, process):
        return [line for line in self.audit_lines() if (line["verdict"], line["action"], line.get("target_pid"), line.get("client_uid")) ==
                (verdict, "capture", process.pid, OPERATOR)]

    def test_a_group_loses_and_gains_a_process_in_the_middle_of_a_capture(self):
        operator = as_user(OPERATOR, OPERATORS)
        self.begin_daemon(f"[access operators]\ngroups = {OPERATORS}\ntarget-users = {OWNER}\n")
        client = self.begin(operator, self.owners.pid, every=True)
        self.assertTrue(self.probes(self.owners))
        self.assertFalse(self.may(operator, self.others))
        begun = time.monotonic()
        self.reload("")
        harness.wait_until(lambda: not self.probes(self.owners), 3, "they are gone")
        print(f"     detached within {time.monotonic() - begun:.2f} s of SIGHUP")
        self.assertFalse(self.may(operator, self.owners))
        self.assertEqual([line["reason"].partition(":")[0] for line in self.audited("deny", self.owners) if "capture" in line],
                         [f"user {OPERATOR} may not profile process {self.owners.pid} of user {OWNER}"])
        self.assertFalse(self.probes(self.others))
        # The sections have other numbers than before.
        self.reload(f"[access nobody]\nusers = 4799\n[access operators]\ngroups = {OPERATORS}\ntarget-users = {OTHER}\n")
        harness.wait_until(lambda: self.probes(self.others), 3, "the other process joins")
        self.assertEqual(len(self.audited("allow", self.others)), 1)
        self.assertTrue(self.may(operator, self.others))
        self.assertFalse(self.may(operator, self.owners))
        self.assertFalse(self.probes(self.owners))
        self.assertIsNone(client.poll(), "the capture goes on")

    def test_a_capture_goes_on_as_long_as_its_client_may_have_it(self):
        sections = f"[access operators]\ngroups = {OPERATORS}\ntarget-users = {OWNER}\n"
        self.begin_daemon(sections, "--max-overhead", "100")
        before = harness.bpf_objects()
        # At level 2, the default.
        client = self.begin(as_user(OPERATOR, OPERATORS), self.owners.pid)
        probes, attached = self.probes(self.owners), harness.leftovers(before, 0, self.daemon)
        self.assertTrue(probes)
        self.reload(f"[access nobody]\nusers = 4799\n{sections}max-level = 2\n")
        time.sleep(1.5)
        self.assertEqual((self.probes(self.owners), harness.leftovers(before, 0, self.daemon)), (probes, attached))
        self.assertEqual(len(self.audited("allow", self.owners)), 1)
        self.reload(f"{sections}max-level = 1\n")
        harness.wait_until(lambda: not self.probes(self.owners), 3, "they are gone")
        self.assertIsNone(client.poll())

    def test_a_file_that_cannot_be_used_changes_nothing_and_flags_keep_their_values(self):
        good = f"[daemon]\ntcp-access = root\nmax-level = 2\n[access operators]\ngroups = {OPERATORS}\ntarget-users = {OWNER}\n"
        self.begin_daemon(good, "--tcp-access", "user")
        operator, other = as_user(OPERATOR, OPERATORS), as_user(OTHER)
        more = f"[access more]\nusers = {OTHER}\ntarget-users = {OWNER}\n"
        for bad, reason in ((f"{more}[access wrong]\nusers = nobody-at-all\n", "[access wrong]: unknown user 'nobody-at-all'"),
                            (f"{more}max-levels = 1\n", "unknown key 'max-levels' (did you mean 'max-level'?)"),
                            (f"[daemon]\nmax-duration = 0\n{more}", "invalid number of seconds '0'")):
            self.reload(bad, "; the configuration and the certificate remain unchanged")
            self.assertIn(reason, self.daemon.stderr())
            self.assertTrue(self.may(operator, self.owners))
            self.assertFalse(self.may(other, self.owners))
        self.assertNotIn("was reloaded", self.daemon.stderr())
        self.reload(f"{good}{more}")
        self.assertTrue(self.may(other, self.owners))
        # By the flag root has only its own on TCP.
        command = self.call([], "--daemon", self.daemon.address, "targets", "--json")
        self.assertNotIn(self.owners.pid, [t["pid"] for t in json.loads(command.stdout or '{"targets": []}')["targets"]])

    def test_keys_of_the_daemon_that_limit_others_apply_after_SIGHUP(self):
        self.begin_daemon("")
        on_tcp = self.start(Client, self.daemon.address, 0)
        words = ("capture", "--pid", self.owners.pid, "-d", "100ms", "--level", "2", "--memory=on", "--json")
        # Nobody but root has more by default, and who asks for less has that.
        for user, asked, budget in ((OWNER, (), 5), (OWNER, ("--max-overhead", "3"), 3), (0, (), None)):
            command = self.ctl(as_user(user) if user else [], *words, *asked, "-o", self.logdir())
            self.assertEqual(command.json["max_overhead_percent"], budget)
        self.assertFalse(self.limits(words))
        words += "--max-overhead", "60"
        self.assertEqual(on_tcp.ask(), "True ['READY']")
        self.reload("[daemon]\ntcp-access = user\nmax-level = 1\nmax-overhead = 50\nmemory = no\n")
        self.assertEqual(self.limits(words), ["The daemon's configuration limits your captures of these processes: level 1; 50 % of the processes' CPU time; no allocations."])
        self.assertEqual(on_tcp.ask(), "False ['READY']")
        self.reload("[daemon]\ntcp-access = no\nmax-overhead = 100\n")
        self.assertFalse(self.limits(words))
        self.assertEqual(self.call([], "--daemon", self.daemon.address, "plan", "--pid", self.owners.pid).status, DENIED)
        self.reload("")
        self.assertEqual(on_tcp.ask(), "True ['READY']")

    def limits(self, words):
        return [warning for warning in self.ctl(as_user(OWNER), *words, "-o", self.logdir()).json["warnings"] if "limits your captures" in warning]

    def test_the_recorder_follows_captures_user(self):
        self.begin_daemon(f"[daemon]\ncaptures-user = {OWNER}\n", "--recorder", "1", "--recorder-overhead", "100")
        harness.wait_until(lambda: self.probes(self.owners), 10, "the owner's process is recorded")
        self.assertFalse(self.probes(self.others))
        self.reload(f"[daemon]\ncaptures-user = {OTHER}\n")
        harness.wait_until(lambda: self.probes(self.others) and not self.probes(self.owners), 5, "the other one is, instead")

    def test_the_next_broker_has_the_rules_of_the_last_reload(self):
        self.begin_daemon("")
        client = self.start(Client, f"unix:{self.daemon.socket}", OPERATOR)
        self.assertEqual(client.ask(), "False ['READY']")
        more = f"[access more]\nusers = {OPERATOR}\ntarget-users = {OWNER}\n"
        self.reload(more)
        self.assertEqual(client.ask(), "True ['READY']")
        self.settings.write_text("[daemon]\nmax-level = 9\n")
        for _ in range(2):
            broker = self.daemon.roles()["broker"]
            os.kill(broker, signal.SIGKILL)
            self.daemon.wait_roles(replaced=[broker])
            self.assertEqual(client.ask(), "True ['READY']")
            self.assertTrue(self.may(as_user(OPERATOR), self.owners))
            self.assertFalse(self.may(as_user(OPERATOR), self.others))
        # A reload while there is no broker.
        self.daemon.send(signal.SIGSTOP)
        broker = self.daemon.roles()["broker"]
        os.kill(broker, signal.SIGKILL)
        self.settings.write_text(f"[daemon]\nmax-duration = 1\n[access nobody]\nusers = 4799\n{more.replace(str(OWNER), str(OTHER))}")
        self.daemon.send(signal.SIGHUP)
        self.daemon.send(signal.SIGCONT)
        self.daemon.wait_roles(replaced=[broker])
        harness.wait_until(lambda: self.daemon.stderr().count("was reloaded") == 2, 5, "the front reads it, too")
        self.assertEqual(client.ask(), "True ['READY']")
        self.assertTrue(self.may(as_user(OPERATOR), self.others))
        self.assertFalse(self.may(as_user(OPERATOR), self.owners))
        self.assertEqual(self.ctl([], "capture", "--pid", self.owners.pid, "-d", "2s", "-o", self.logdir()).status, USAGE)

    def test_the_last_of_many_reloads_counts_for_a_broker_that_was_held_up(self):
        self.begin_daemon("")
        broker = self.daemon.roles()["broker"]
        os.kill(broker, signal.SIGSTOP)
        for n in range(12):
            # More than the socket between the two has room for.
            self.settings.write_text(f"[access last]\nusers = {OPERATOR}\ntarget-users = {OWNER if n == 11 else 4799}\n")
            self.daemon.send(signal.SIGHUP)
            time.sleep(0.05)
        os.kill(broker, signal.SIGCONT)
        harness.wait_until(lambda: self.may(as_user(OPERATOR), self.owners), 5, "the last rules apply")

    def test_names_are_those_of_the_time_of_the_reload(self):
        # Seen by this daemon only.
        passwd = self.directory / "passwd"
        passwd.write_text(pathlib.Path("/etc/passwd").read_text())
        self.begin_daemon("", prefix=["unshare", "-m", "sh", "-c", f'mount --bind {passwd} /etc/passwd && exec "$@"', "sh"])
        late = f"[access late]\nusers = late-operator\ntarget-users = {OWNER}\n"
        self.reload(late, "[access late]: unknown user 'late-operator'; the configuration and the certificate remain unchanged")
        self.assertFalse(self.may(as_user(OPERATOR), self.owners))
        with passwd.open("a") as f:
            f.write(f"late-operator:x:{OPERATOR}:{OPERATOR}::/:/usr/sbin/nologin\n")
        self.reload(late)
        self.assertTrue(self.may(as_user(OPERATOR), self.owners))


if __name__ == "__main__":
    harness.main()
