#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tfprofctl: what it prints, the exit codes that scripts rely on, that bad input is explained and leaves nothing
behind, and its private daemon. As root."""
import concurrent.futures
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
import time

import harness

CTL = harness.OUT / "tfprofctl"
NOBODY = 65534
OK, INTERNAL, USAGE, DENIED, NO_TARGET, NOTHING, LOSS, HOST = range(8)
NUMBERS = ("xspace_bytes window_ns records dropped runs runs_cut runs_per_second run_p50_ns run_p99_ns ops lost_names "
           "running_ns runnable_ns throttled_ns blocked_ns").split()
# Runs what follows where no daemon can be listening at the default address.
HIDE_DAEMON = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /run && exec "$@"', "sh"]
# Likewise, and where the kernel's type information cannot be seen.
HIDE_BTF = [*HIDE_DAEMON, "sh", "-c", 'mount -t tmpfs none /sys/kernel/btf && exec "$@"', "sh"]


def private_daemons():
    """What a private daemon consists of while it lives: its processes and its directory."""
    found = [str(p) for p in pathlib.Path("/tmp").glob("tfprofctl-*")]
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.startswith(b"/tmp/tfprofctl-") for word in words):
            found.append(f"process {path.parent.name}")
    return found


class CliTestCase(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.directory.chmod(0o755)
        self.logdir = self.directory / "logdir"

    def assert_ends(self, command, status, message=None):
        """The exit status, and what a line of standard error must contain after the program's name; None: it is empty."""
        self.assertEqual(command.status, status, command.stderr + command.stdout)
        if message is None:
            self.assertEqual(command.stderr, "")
        else:
            self.assertRegex(command.stderr, rf"(?m)^tfprofctl: .*{message}")

    def assert_nothing_left(self):
        self.assertFalse(self.logdir.exists(), list(self.logdir.rglob("*")))

    def begin(self, *argv, **options):
        """tfprofctl, to be interrupted; what it prints is read at its end."""
        process = subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, cwd=harness.ROOT, **options)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process


class BadUsage(CliTestCase):
    """What is refused before a daemon is asked."""

    def capture(self, *arguments, **how):
        return harness.run(CTL, "--daemon", self.directory / "none", "capture", *arguments, **how)

    def test_usage_errors_are_explained_in_a_line_and_end_with_2(self):
        for arguments, message in (
                ([], "no command: use one of capture, "),
                (["record"], "unknown command 'record': use one of capture, "),
                (["--nonsense", "targets"], "unknown option '--nonsense'"),
                (["--daemon"], "option '--daemon' requires an argument"),
                (["targets", "12"], "unexpected argument '12'"),
                (["capture", "12"], "unexpected argument '12': use --pid to name a process"),
                (["capture", "--pid"], "option '--pid' requires an argument"),
                (["capture", "--pid", "0"], "invalid process ID '0'"),
                (["capture", "--pid", "-5"], "invalid process ID '-5'"),
                (["capture", "--pid", "12x"], "invalid process ID '12x'"),
                (["capture", "--pid", "99999999999999999999"], "invalid process ID"),
                (["capture", "--level", "0"], "invalid level '0': use 1, 2 or 3"),
                (["capture", "--level", "4"], "invalid level '4'"),
                (["plan", "12"], "unexpected argument '12': use --pid to name a process"),
                (["plan", "--pid", "0"], "invalid process ID '0'"),
                (["plan", "--level", "4"], "invalid level '4': use 1, 2 or 3"),
                (["plan", "--ops", "both"], "invalid value 'both' for --ops: use exact or entry"),
                (["plan", "--duration", "1s"], "'--duration' is not an option of this command"),
                (["capture", "--ops="], "invalid value '' for --ops: use exact or entry"),
                (["capture", "--max-overhead", "0"], "the overhead must be more than 0 and at most 100 %, not '0'"),
                (["capture", "--max-overhead=-1"], "the overhead must be more than 0 and at most 100 %, not '-1'"),
                (["capture", "--max-overhead", "101%"], "at most 100 %, not '101%'"),
                (["capture", "--max-overhead", "little"], "invalid percentage 'little': use 1, 0.5 or 20%"),
                (["capture", "--duration", "0"], "the duration must be more than 0"),
                (["capture", "--duration", "0ms"], "the duration must be more than 0"),
                (["capture", "--duration", "-1s"], "the duration must be more than 0"),
                (["capture", "--duration", "61m"], "at most one hour, not '61m'"),
                (["capture", "--duration", "soon"], "invalid duration 'soon': use 500ms"),
                (["capture", "--duration", ""], "invalid duration ''")):
            words = [*arguments]
            if words[:1] == ["capture"]:
                words[1:1] = ["-o", self.logdir]
            command = harness.run(CTL, *words)
            self.assertEqual(command.status, USAGE)
            self.assertIn(message, command.stderr.splitlines()[0])
            self.assertIn("--help", command.stderr)
            self.assertEqual(command.stdout, "")
            self.assert_nothing_left()

    def test_help_and_version_are_answered_without_a_daemon(self):
        for arguments in (["--help"], ["--version"], ["capture", "--help"], ["plan", "--help"], ["targets", "--help"]):
            command = harness.run(CTL, "--daemon", self.directory / "none", *arguments)
            self.assertEqual((command.status, command.stderr), (OK, ""))
            self.assertIn("tfprofctl", command.stdout)

    def help(self, *arguments):
        """The options in a help text, as (letter, "": none; name)."""
        command = harness.run(CTL, *arguments)
        self.assertEqual((command.status, command.stderr), (OK, ""))
        return command.stdout, re.findall(r"(?m)^  (?:-(\w), |    )--([a-z-]+)", command.stdout)

    def commands(self):
        text, _ = self.help("help")
        return re.findall(r"(?m)^  ([a-z]+)  +[A-Z]", text)

    def test_both_programs_have_one_version_and_help_is_the_same_however_it_is_asked_for(self):
        version = harness.run(CTL, "version").stdout
        self.assertRegex(version, r"^tfprofctl \d+\.\d+\.\d+\n$")
        self.assertEqual(harness.run(CTL, "--version").stdout, version)
        self.assertEqual(harness.run(harness.OUT / "tfprofd", "--version").stdout, version.replace("ctl", "d"))
        self.assertEqual(self.help("help"), self.help("--help"))
        self.assertEqual(self.commands(), ["capture", "plan", "targets", "status", "stop", "replay", "snapshot", "snapshots", "lifecycle",
                                           "doctor", "audit", "help", "version"])
        for name in self.commands():
            self.assertEqual(self.help("help", name), self.help(name, "--help"))

    def test_a_letter_means_the_same_in_every_command_and_help_lists_the_options_of_a_command(self):
        letters, names = {}, set()
        for name in self.commands():
            _, options = self.help("help", name)
            for letter, option in options:
                names.add(option)
                if letter:
                    self.assertEqual(letters.setdefault(letter, option), option)
        _, options = self.help("--help")
        for letter, option in options:
            self.assertEqual(letters.setdefault(letter, option) if letter else option, option)
        self.assertEqual(letters["l"], "level")
        for name in self.commands():
            _, options = self.help("help", name)
            for option in names - {"help"}:
                refused = harness.run(CTL, "--daemon", self.directory / "none", name, f"--{option}=", "--nonsense").stderr
                self.assertEqual("is not an option of this command" in refused, option not in {o for _, o in options}, (name, refused))

    def test_the_most_similar_name_is_suggested(self):
        for arguments, message in ((["captrue"], "unknown command 'captrue'; did you mean 'capture'?"),
                                   (["help", "target"], "unknown command 'target'; did you mean 'targets'?"),
                                   (["--deamon", "x", "targets"], "unknown option '--deamon'; did you mean '--daemon'?"),
                                   (["capture", "--levle", "3"], "unknown option '--levle'; did you mean '--level'?"),
                                   (["capture", "--daemon", "x"], "'--daemon' must precede the command"),
                                   (["doctor", "-p", "1", "-p", "2"], "give --pid only once")):
            command = harness.run(CTL, *arguments)
            self.assertEqual((command.status, command.stdout), (USAGE, ""))
            self.assertIn(message, command.stderr.splitlines()[0])
        refused = harness.run(harness.OUT / "tfprofd", "--lisen", "no")
        self.assertEqual((refused.status, refused.stderr),
                         (USAGE, "tfprofd: unknown option '--lisen'; did you mean '--listen'? (see tfprofd --help)\n"))

    def test_the_address_of_a_missing_daemon_is_named(self):
        none = self.directory / "none"
        for address, status, message in (
                (f"unix:{none}", INTERNAL, f"no daemon listens at unix:{none}"),
                (none, INTERNAL, f"no daemon listens at {none}"),
                ("@tfprofctl-test-none", INTERNAL, "no daemon listens at @tfprofctl-test-none"),
                (f"127.0.0.1:{harness.free_port()}", INTERNAL, "no daemon listens at 127.0.0.1:"),
                ("nonsense", USAGE, "invalid address 'nonsense': use unix:PATH")):
            for command in (["targets"], ["plan"], ["capture", "-o", self.logdir]):
                self.assert_ends(harness.run(CTL, "--daemon", address, *command), status, re.escape(message))
                self.assert_nothing_left()

    def test_a_logdir_that_cannot_be_written_is_refused_before_a_daemon_is_asked(self):
        file = self.directory / "file"
        file.touch()
        closed = self.directory / "closed"
        closed.mkdir(mode=0o755)
        for logdir, user, message in (
                (self.directory / "no/logdir", None, ": its parent directory does not exist"),
                (file, None, ": Not a directory"),
                ("/sys/kernel", None, ": "),
                (closed, NOBODY, ": Permission denied"),
                (closed / "logdir", NOBODY, ": Permission denied")):
            self.assert_ends(self.capture("-o", logdir, user=user), USAGE,
                             f"cannot (create|write to) LOGDIR {re.escape(str(logdir))}{message}")
        self.assertEqual(sorted(self.directory.iterdir()), [closed, file])
        self.assertEqual(list(closed.iterdir()), [])


class Served(CliTestCase):
    """Against a daemon that runs, with a server that runs its model by itself."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = harness.NativeServer(["layered"], self_load=1, http=False)
        cls.addClassCleanup(cls.server.stop)
        cls.daemon = harness.Daemon()
        cls.addClassCleanup(cls.daemon.stop)
        harness.wait_target(cls.daemon, cls.server.pid)

    def capture(self, *arguments, **how):
        return harness.ctl(self.daemon, "capture", *arguments, "-o", self.logdir, **how)


class EveryTarget(Served):
    def test_without_pid_every_target_is_captured(self):
        other = self.start(harness.NativeServer, ["half_plus_two"], self_load=1, http=False)
        harness.wait_target(self.daemon, other.pid)
        command = self.capture("--duration", "500ms", "--json")
        # Other processes of the host, which are captured as well, may end meanwhile.
        self.assertIn(command.status, (OK, LOSS), command.stderr)
        lines = harness.XSpace(command.json["file"]).lines()
        for server in (self.server, other):
            threads = os.listdir(f"/proc/{server.pid}/task")
            self.assertTrue(any(re.search(rf"\b{thread}\b", name) for name in lines for thread in threads), list(lines))


class WithDaemon(Served):
    def begin_on_terminal(self, *arguments):
        """A capture whose standard error is a terminal: (process, the other side of the terminal)."""
        terminal, slave = pty.openpty()
        self.addCleanup(os.close, terminal)
        process = self.begin(CTL, "--daemon", f"unix:{self.daemon.socket}", "capture", *arguments, "-o", self.logdir,
                             preexec_fn=lambda: os.dup2(slave, 2))
        # Held open, so that what was shown can be read after the process has ended.
        self.addCleanup(os.close, slave)
        self.slave = slave
        return process, terminal

    def await_shown(self, terminal, pattern, timeout=20):
        """Reads what a terminal shows until it shows the pattern."""
        shown, end = "", time.monotonic() + timeout
        while not re.search(pattern, shown):
            ready, _, _ = select.select([terminal], [], [], max(0, end - time.monotonic()))
            self.assertTrue(ready, f"{pattern!r} is not shown: {shown!r}")
            shown += os.read(terminal, 1 << 16).decode()
        return shown

    def test_targets_shows_what_can_be_profiled_and_its_address(self):
        target = harness.ctl_targets(self.daemon)[self.server.pid]
        self.assertEqual(set(target), {"pid", "uid", "name", "runtime", "version", "knowledge", "address", "file"})
        self.assertEqual((target["uid"], target["name"]), (0, "native_server"))
        self.assertTrue(target["runtime"] and target["version"] and target["file"])
        self.assertRegex(target["address"], r"^(localhost|127\.0\.0\.1):\d+$")

        command = harness.ctl(self.daemon, "targets")
        self.assertEqual((command.status, command.stderr), (OK, ""))
        heading, *rows = command.stdout.splitlines()
        self.assertEqual(heading.split(), ["pid", "uid", "name", "runtime", "version", "knowledge", "address", "file"])
        row = next(row for row in rows if row.split()[0] == str(self.server.pid))
        for value in ("native_server", target["address"], target["file"]):
            self.assertIn(value, row)

    def test_a_capture_writes_a_run_and_prints_its_numbers(self):
        command = self.capture("--pid", self.server.pid, "--duration", "1s", "--json")
        self.assertEqual((command.status, command.stderr), (OK, ""))
        result = command.json
        path = pathlib.Path(result["file"])
        self.assertEqual([path], harness.xspace_files(self.logdir))
        self.assertEqual([p for p in self.logdir.rglob("*") if p.is_file()], [path])
        self.assertRegex(path.parent.name, r"^\d{4}(_\d\d){5}$")
        self.assertEqual(path.stat().st_size, result["xspace_bytes"])
        self.assertIn("/host:CPU", harness.XSpace(path).planes)
        for name in NUMBERS:
            self.assertIsInstance(result[name], (int, float), name)
        self.assertGreater(result["runs"], 0)
        self.assertGreater(result["ops"], result["runs"])
        self.assertAlmostEqual(result["window_ns"] / 1e9, 1, delta=0.3)
        self.assertAlmostEqual(result["runs_per_second"], result["runs"] / result["window_ns"] * 1e9, delta=0.1)
        self.assertLessEqual(result["run_p50_ns"], result["run_p99_ns"])
        self.assertEqual((result["dropped"], result["cut"]), (0, False))
        selves = [op["self_ns"] for op in result["top_ops"]]
        self.assertTrue(selves)
        self.assertEqual(selves, sorted(selves, reverse=True))

    def test_the_summary_is_human_readable(self):
        command = self.capture("--pid", self.server.pid, "--duration", "500ms")
        self.assert_ends(command, OK, "forecast: a run costs about ")
        self.assertEqual(command.stderr.count("\n"), 1)
        path = harness.xspace_files(self.logdir)[0]
        for pattern in (r"^Captured 5\d\d ms: [\d,]+ runs, [\d,]+ operations$",
                        r"^  runs +[\d.]+/s, p50 [\d.]+ [mun]?s, p99 [\d.]+ [mun]?s",
                        r"^  threads +[\d.]+ % running, [\d.]+ % waiting for a CPU, [\d.]+ % blocked",
                        r"^  lost records: 0 of [\d,]+$",
                        r"^  probe overhead: about [\d.]+ % of the target's CPU time$", r"^ +self +% of work +total +count +type +operation$",
                        r"^ +[\d.]+ [mun]?s +[\d.]+ +[\d.]+ [mun]?s +[\d,]+ +MatMul +\S+$",
                        rf"^Written: {path} \(.*B\)$", rf"^Open with: tensorboard --logdir {self.logdir}$"):
            self.assertRegex(command.stdout, f"(?m){pattern}")

    def test_the_daemon_logs_its_version_its_listeners_and_each_capture(self):
        before = self.daemon.stderr()
        self.assertEqual(len(re.findall(r"(?m)^tfprofd: version \d+\.\d+\.\d+$", before)), 1)
        listening = re.findall(r"(?m)^tfprofd: listening on (.*)$", before)
        self.assertEqual(len(listening), 1)
        for place in (f"unix:{self.daemon.socket}", f"127.0.0.1:{self.daemon.port}"):
            self.assertIn(place, listening[0])
        self.assertNotRegex(before, r"(?m)^<\d>")

        def lines():
            return re.findall(r"(?m)^tfprofd broker: (audit: verdict=\w+ action=capture .*)$", self.daemon.stderr()[len(before):])
        self.assert_ends(self.capture("--pid", self.server.pid, "--duration", "300ms", "--level", 1, "--json"), OK)
        harness.wait_until(lambda: len(lines()) == 3, 5, "the capture is logged")
        self.assertEqual(harness.ctl(self.daemon, "plan", "--pid", self.server.pid, "--json").status, OK)
        self.assertEqual(len(lines()), 3)
        self.assertRegex(lines()[2], rf"^audit: verdict=stop action=capture client_uid=0 .* target_pid={self.server.pid} .* "
                                     r"duration_ms=\d+ events=\d+ bytes=\d+ lost=0$")

    def test_captures_never_overwrite_a_run(self):
        arguments = ["--pid", self.server.pid, "--duration", "200ms", "--json"]
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            commands = list(pool.map(lambda _: self.capture(*arguments), range(6)))
        self.assertEqual([c.status for c in commands], [OK] * 6, [c.stderr for c in commands])
        self.assertEqual(len({c.json["file"] for c in commands}), 6)
        self.assertEqual(len(harness.xspace_files(self.logdir)), 6)

    def test_a_missing_process_ends_with_4(self):
        for pid in (4194304, 3999999):
            self.assert_ends(self.capture("--pid", pid), NO_TARGET, str(pid))
        self.assert_ends(self.capture("--pid", self.server.pid, "--pid", 4194304), NO_TARGET, "4194304")
        self.assert_nothing_left()

    def test_a_process_without_a_known_runtime_and_without_requests_ends_with_5(self):
        process = self.start(harness.Process, "sleep", ["sleep", "60"])
        self.assert_ends(self.capture("--pid", process.pid, "--duration", "200ms"), NOTHING, f"{process.pid}.*no known runtime")
        self.assert_nothing_left()

    def test_windows_longer_than_the_daemon_allows_end_with_2(self):
        for duration in ("301s", "1h"):
            self.assert_ends(self.capture("--pid", self.server.pid, "--duration", duration), USAGE, "max-duration")
        self.assert_nothing_left()

    def test_another_user_is_denied(self):
        self.directory.chmod(0o777)
        self.assert_ends(self.capture("--pid", self.server.pid, user=NOBODY), DENIED, "you may not use the daemon")
        for which in (["--pid", self.server.pid], ["--pid", self.server.pid, "--json"]):
            command = harness.run(CTL, "--daemon", self.daemon.address, "capture", *which, "-o", self.logdir,
                                  user=NOBODY)
            self.assert_ends(command, DENIED, "may not profile")
            self.assertEqual(command.stdout, "")
        self.assert_nothing_left()
        listed = harness.run(CTL, "--daemon", self.daemon.address, "targets", "--json", user=NOBODY)
        self.assertEqual((listed.status, listed.json), (OK, {"targets": []}))

    def test_a_server_without_requests_ends_with_5(self):
        idle = self.start(harness.NativeServer, ["half_plus_two"])
        harness.wait_target(self.daemon, idle.pid)
        command = self.capture("--pid", idle.pid, "--duration", "300ms", "--json")
        self.assert_ends(command, NOTHING, "nothing was captured")
        self.assertEqual((command.json["file"], command.json["ops"]), (None, 0))
        self.assert_nothing_left()

    def test_a_target_that_ends_in_the_window_gives_a_partial_result_and_6(self):
        server = self.start(harness.NativeServer, ["layered"], self_load=1, http=False)
        harness.wait_target(self.daemon, server.pid)
        process, terminal = self.begin_on_terminal("--pid", server.pid, "--duration", "10s", "--json")
        self.await_shown(terminal, r"[1-9][\d.]* s of 10.0 s, [1-9][\d,]* events")
        server.send(signal.SIGKILL)
        stdout, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, LOSS, stdout)
        result = json.loads(stdout)
        self.assertTrue(result["cut"])
        self.assertGreater(result["ops"], 0)
        self.assertTrue(result["warnings"])
        self.assertTrue(harness.XSpace(result["file"]).ops())

    def test_an_interrupt_cancels_and_leaves_nothing(self):
        before = harness.bpf_objects()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process, terminal = self.begin_on_terminal("--pid", self.server.pid, "--duration", "60s")
            self.await_shown(terminal, "[1-9][0-9,]* events")
            process.send_signal(number)
            stdout, _ = process.communicate(timeout=10)
            self.assertEqual((process.returncode, stdout), (INTERNAL, ""))
            self.assertTrue(self.await_shown(terminal, "\r\x1b\\[Ktfprofctl: canceled: nothing was written"))
            self.assert_nothing_left()
        self.assertEqual(harness.leftovers(before, timeout=10), [])

    def test_progress_is_shown_on_a_terminal_only(self):
        process, terminal = self.begin_on_terminal("--pid", self.server.pid, "--duration", "1s", "--json")
        stdout, _ = process.communicate(timeout=60)
        # What was written before arrives before.
        os.write(self.slave, b"|")
        shown = self.await_shown(terminal, r"\|").removesuffix("|")
        self.assertEqual(process.returncode, OK, shown)
        self.assertRegex(shown, r"\r\x1b\[K[\d.]+ m?s of 1.00 s, [\d,]+ events, 0 lost")
        self.assertTrue(shown.endswith("\r\x1b[K"), shown)
        self.assertNotIn("\n", shown)
        json.loads(stdout)

    def test_output_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([CTL, "--daemon", f"unix:{self.daemon.socket}", "targets"], stdout=full,
                                  stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stderr), (INTERNAL, "tfprofctl: cannot write to standard output\n"))

    def test_a_port_in_use_is_named_by_the_daemon(self):
        socket = self.directory / "other.sock"
        command = harness.run(harness.OUT / "tfprofd", "--socket", socket, "--listen", self.daemon.address,
                              "--target-ports", self.daemon.target_ports, "--state-dir", self.directory / "state",
                              "--foreground", timeout=20)
        self.assertNotEqual(command.status, 0)
        self.assertIn(str(self.daemon.port), command.stderr)
        self.assertFalse(socket.exists())
        self.assertEqual(harness.ctl(self.daemon, "targets").status, OK)


class Private(CliTestCase):
    """Without a daemon, tfprofctl starts one of its own."""

    def setUp(self):
        super().setUp()
        self.before = private_daemons()

    def new_daemons(self):
        return [found for found in private_daemons() if found not in self.before]

    def assert_no_daemon_left(self):
        self.assertEqual(self.new_daemons(), [])


class PrivateDaemon(Private):
    """Of the real program, with a real server."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = harness.NativeServer(["layered"], self_load=1, http=False)
        cls.addClassCleanup(cls.server.stop)

    def run_private(self, *arguments, hide=(), **how):
        return harness.run(*(hide or HIDE_DAEMON), CTL, *arguments, **how)

    def capture_argv(self, duration):
        return [*HIDE_DAEMON, CTL, "capture", "--pid", self.server.pid, "--duration", duration, "-o", self.logdir]

    def test_it_captures_and_is_gone_afterwards(self):
        before = harness.bpf_objects()
        command = self.run_private("capture", "--pid", self.server.pid, "--duration", "500ms", "-o", self.logdir,
                                   "--json")
        self.assertEqual((command.status, command.stderr), (OK, ""))
        self.assertGreater(command.json["ops"], 0)
        self.assertEqual([pathlib.Path(command.json["file"])], harness.xspace_files(self.logdir))
        self.assert_no_daemon_left()
        self.assertEqual(harness.leftovers(before), [])

    def test_targets_works_and_reports_that_no_daemon_is_running(self):
        command = self.run_private("targets")
        self.assert_ends(command, OK, "no tfprofd is running")
        self.assertIn(f" {self.server.pid} ", command.stdout)
        listed = self.run_private("targets", "--json")
        self.assertEqual((listed.status, listed.stderr), (OK, ""))
        target = next(t for t in listed.json["targets"] if t["pid"] == self.server.pid)
        self.assertIsNone(target["address"])
        self.assert_no_daemon_left()

    def test_errors_of_the_command_end_it_too(self):
        self.assert_ends(self.run_private("capture", "--pid", 4194304, "-o", self.logdir), NO_TARGET, "4194304")
        self.assert_no_daemon_left()
        self.assert_nothing_left()

    def test_an_interrupt_ends_it_too(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.begin(*self.capture_argv("60s"))
            harness.wait_until(self.new_daemons, 10, "a private daemon")
            time.sleep(1)
            process.send_signal(number)
            _, stderr = process.communicate(timeout=20)
            self.assertEqual(process.returncode, INTERNAL)
            self.assertRegex(stderr, r"\A(tfprofctl: forecast: .*\n)?tfprofctl: canceled: nothing was written\n\Z")
            self.assert_no_daemon_left()
            self.assert_nothing_left()

    def test_it_does_not_outlive_a_command_that_is_killed(self):
        before = harness.bpf_objects()
        process = self.begin(*self.capture_argv("60s"))
        harness.wait_until(self.new_daemons, 10, "a private daemon")
        time.sleep(1.5)
        process.kill()
        process.communicate(timeout=10)
        harness.wait_until(lambda: not self.new_daemons(), 12, "the private daemon is gone")
        self.assertEqual(harness.leftovers(before), [])

    def test_a_host_without_type_information_ends_with_7(self):
        for command in (["targets"], ["capture", "--pid", self.server.pid, "-o", self.logdir]):
            self.assert_ends(self.run_private(*command, hide=HIDE_BTF), HOST, "BTF")
        self.assert_no_daemon_left()
        self.assert_nothing_left()

    def test_a_user_without_permission_ends_with_7(self):
        self.directory.chmod(0o777)
        # Where that user can reach them, wherever the tree is.
        public = self.directory / "bin"
        public.mkdir()
        control = shutil.copy(CTL, public)
        shutil.copy(harness.OUT / "tfprofd", public)
        hide = [*HIDE_DAEMON, "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        command = harness.run(*hide, control, "capture", "--pid", self.server.pid, "-o", self.logdir)
        self.assert_ends(command, HOST, "root")
        shutil.rmtree(public)
        self.assert_no_daemon_left()
        self.assert_nothing_left()


class PrivateProgram(Private):
    """With a program of the test in the place of tfprofd, or none."""

    def install_with(self, script):
        """tfprofctl beside a tfprofd of the test."""
        control = self.directory / "bin/tfprofctl"
        control.parent.mkdir()
        shutil.copy(CTL, control)
        if script:
            program = control.with_name("tfprofd")
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)
        return control

    def test_the_error_of_a_daemon_that_cannot_start_is_shown(self):
        for script, status, message in (
                ("echo '<6>tfprofd: a note' >&2; echo '<3>tfprofd: no BTF here' >&2; exit 7", HOST,
                 "tfprofd: no BTF here"),
                ("echo '<3>tfprofd: broken' >&2; exit 1", INTERNAL, "tfprofd: broken"),
                ("exit 3", INTERNAL, "the private daemon exited early with code 3"),
                ("kill -9 $$", INTERNAL, "the private daemon exited early with code 137"),
                # more than is kept, which must not make it wait
                ("yes '<3>tfprofd: again' | head -c 1000000 >&2; exit 7", HOST, "tfprofd: again")):
            control = self.install_with(script)
            command = harness.run(*HIDE_DAEMON, control, "capture", "-o", self.logdir)
            self.assert_ends(command, status, message)
            self.assertNotIn("a note", command.stderr)
            self.assertNotIn("<3>", command.stderr)
            self.assert_no_daemon_left()
            self.assert_nothing_left()
            shutil.rmtree(control.parent)

    def test_a_daemon_that_never_answers_times_out(self):
        # It is deaf, has a child, and has put something into its directory ($3 is its socket).
        control = self.install_with("trap '' TERM INT; mkdir \"$3.other\"; touch \"$3.other/file\"; sleep 1000 & wait")
        started = time.monotonic()
        command = harness.run(*HIDE_DAEMON, control, "targets", timeout=60)
        self.assert_ends(command, INTERNAL, "the private daemon does not respond")
        self.assertLess(time.monotonic() - started, 30)
        self.assert_no_daemon_left()

    def test_a_missing_program_is_named(self):
        control = self.install_with(None)
        command = harness.run(*HIDE_DAEMON, control, "targets", env={"PATH": "/usr/bin:/bin"})
        self.assert_ends(command, INTERNAL, "no tfprofd was found beside tfprofctl, in ../sbin or in PATH")

    def test_the_program_is_found_in_sbin_and_in_path(self):
        control = self.install_with("exit 7")
        for place in ("sbin", "elsewhere"):
            (self.directory / place).mkdir()
        places = {"sbin": "/usr/bin:/bin", "elsewhere": f"/usr/bin:/bin:{self.directory / 'elsewhere'}"}
        program = control.with_name("tfprofd")
        for place, path in places.items():
            program = program.rename(self.directory / place / "tfprofd")
            self.assertEqual(harness.run(*HIDE_DAEMON, control, "targets", env={"PATH": path}).status, HOST)


def control_messages():
    """The classes that protoc made of lib/proto/control.proto."""
    path = str(harness.BUILD / "gen/python")
    if path not in sys.path:
        sys.path.insert(0, path)
    import control_pb2
    return control_pb2


class FakeDaemon:
    """Answers tfprofctl as a test wants. capture is a generator of messages or raw bytes, from (request, context)."""

    def __init__(self, socket, capture=None, targets=None, plan=None):
        import grpc

        messages = control_messages()
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))

        def serialize(message):
            return message if isinstance(message, bytes) else message.SerializeToString()
        handlers = {}
        if capture:
            handlers["Capture"] = grpc.unary_stream_rpc_method_handler(
                capture, messages.CaptureRequest.FromString, serialize)
        if targets:
            handlers["ListTargets"] = grpc.unary_unary_rpc_method_handler(
                targets, messages.ListTargetsRequest.FromString, serialize)
        if plan:
            handlers["Plan"] = grpc.unary_unary_rpc_method_handler(plan, messages.PlanRequest.FromString, serialize)
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("tfprofd.Control", handlers),))
        self.server.add_insecure_port(f"unix:{socket}")
        self.server.start()

    def stop(self):
        self.server.stop(0).wait()


class FakeTestCase(CliTestCase):
    def ask(self, command, **answers):
        socket = self.directory / "fake.sock"
        daemon = FakeDaemon(socket, **answers)
        logdir = ["-o", self.logdir] if command.startswith("capture") else []
        try:
            return harness.run(CTL, "--daemon", socket, *command.split(), *logdir, timeout=20)
        finally:
            daemon.stop()

    def result(self, **fields):
        some = {"window_ns": 10**9, "runs": 10, "ops": 100, "records": 1000, "hostname": "h"}
        return control_messages().CaptureReply(result=control_messages().CaptureResult(**{**some, **fields}))


class Answers(FakeTestCase):
    """What tfprofctl makes of a daemon's answers, also of those that a right one never gives."""

    def test_every_status_has_its_exit_code_and_its_message(self):
        import grpc
        code = grpc.StatusCode
        expected = {code.INVALID_ARGUMENT: USAGE, code.PERMISSION_DENIED: DENIED, code.UNAUTHENTICATED: DENIED,
                    code.NOT_FOUND: NO_TARGET, code.FAILED_PRECONDITION: HOST, code.UNIMPLEMENTED: HOST,
                    code.UNAVAILABLE: INTERNAL, code.DEADLINE_EXCEEDED: INTERNAL, code.RESOURCE_EXHAUSTED: INTERNAL,
                    code.INTERNAL: INTERNAL, code.CANCELLED: INTERNAL, code.UNKNOWN: INTERNAL}
        for status, outcome in expected.items():
            def fail(request, context):
                context.abort(status, f"because of {status.name}")
            self.assert_ends(self.ask("capture", capture=fail), outcome, f"because of {status.name}")
            for command in ("targets", "plan"):
                self.assert_ends(self.ask(command, **{command: fail}), outcome, f"because of {status.name}")
            self.assert_nothing_left()

    def test_the_request_contains_the_options(self):
        requests = []

        def capture(request, context):
            requests.append(request)
            yield self.result()
        self.assert_ends(self.ask("capture --pid 7 --pid 8 --pid 7 --duration 1.5s --level 3", capture=capture), OK)
        self.assert_ends(self.ask("capture", capture=capture), OK)
        self.assert_ends(self.ask("capture --ops=entry --max-overhead 0.5% --ops exact", capture=capture), OK)
        self.assert_ends(self.ask("capture --ops entry --max-overhead=20", capture=capture), OK)
        first, second = requests[:2]
        self.assertEqual((list(first.pids), first.duration_ns, first.level), ([7, 8], 1500000000, 3))
        self.assertEqual((list(second.pids), second.duration_ns, second.level), ([], 2000000000, 2))
        self.assertEqual([(r.ops_at_entry, r.max_overhead) for r in requests],
                         [(False, 0), (False, 0), (False, 0.5), (True, 20)])

        def plan(request, context):
            requests.append(request)
            return control_messages().PlanReply()
        for words in ("plan", "plan --pid 7 --level 1 --ops entry --json"):
            self.assert_ends(self.ask(words, plan=plan), OK)
        self.assertEqual([(list(r.pids), r.level, r.ops_at_entry) for r in requests[4:]], [([], 2, False), ([7], 1, True)])

    def test_loss_ends_with_6_and_is_shown(self):
        for fields, text in (({"dropped": 5}, "lost records: 5 of 1,005"), ({"cut": True}, "a process or the window ended early"),
                             ({"shed": [control_messages().Shed(kind="ops", at_ns=120_000_000, overhead=21.25)]},
                              "disabled: ops, after 120 ms, when the probe overhead was 21.2 %")):
            command = self.ask("capture", capture=lambda request, context: iter([self.result(**fields)]))
            self.assert_ends(command, LOSS)
            self.assertIn(text, command.stdout)
        command = self.ask("capture", capture=lambda request, context: iter([self.result(lost_names=7)]))
        self.assert_ends(command, OK)
        self.assertIn("7 operations without a name", command.stdout)

    def test_a_warning_that_restates_another_line_is_in_json_but_not_in_the_summary(self):
        def capture(request, context):
            yield self.result(warnings=["ops were disabled", "records arrived late"], restating_warnings=1)
        command = self.ask("capture", capture=capture)
        self.assertNotIn("ops were disabled", command.stdout)
        self.assertIn("warning: records arrived late", command.stdout)
        command = self.ask("capture --json", capture=capture)
        self.assertEqual(json.loads(command.stdout)["warnings"], ["ops were disabled", "records arrived late"])

    def test_a_trace_is_written_as_it_arrives_and_removed_if_the_download_is_interrupted(self):
        pieces = [os.urandom(1 << 20) for _ in range(4)]
        go_on, sizes = threading.Event(), []

        def capture(request, context):
            for piece in pieces:
                yield control_messages().CaptureReply(xspace=piece, xspace_bytes=4 << 20)
            go_on.wait(20)
            yield self.result(xspace_bytes=4 << 20)

        def temporary():
            return [p.stat().st_size for p in self.logdir.rglob(".tfprofctl-*")]
        for interrupted in (False, True):
            go_on.clear()
            daemon = FakeDaemon(self.directory / "fake.sock", capture=capture)
            process = subprocess.Popen([CTL, "--daemon", self.directory / "fake.sock", "capture", "-o", self.logdir], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
            try:
                harness.wait_until(lambda: temporary() == [4 << 20], 20, "all of it is there")
                if interrupted:
                    process.send_signal(signal.SIGINT)
                else:
                    go_on.set()
                _, error = process.communicate(timeout=20)
            finally:
                go_on.set()
                process.kill()
                daemon.stop()
            self.assertEqual(process.returncode, INTERNAL if interrupted else OK, error)
            self.assertEqual(temporary(), [])
            sizes.append(len(harness.xspace_files(self.logdir)))
        self.assertEqual(sizes, [1, 1])
        self.assertEqual(harness.xspace_files(self.logdir)[0].read_bytes(), b"".join(pieces))

    def test_malformed_answers_are_refused_and_leave_nothing(self):
        progress = control_messages().CaptureReply(progress=control_messages().CaptureProgress(elapsed_ns=1))
        unreadable = b"\xff\xff\xff"
        for replies, message in (([], "sent no result"), ([progress], "sent no result"),
                                 ([unreadable], "cannot decode"),
                                 ([self.result(), self.result()], "cannot decode"),
                                 ([self.result(xspace_bytes=5)], "a part of the trace is missing")):
            self.assert_ends(self.ask("capture", capture=lambda request, context: iter(replies)), INTERNAL, message)
            self.assert_nothing_left()
        for command in ("targets", "plan"):
            answers = {command: lambda request, context: unreadable}
            self.assert_ends(self.ask(command, **answers), INTERNAL, "cannot decode")

    def test_an_empty_result_does_no_harm(self):
        empty = control_messages().CaptureReply(result=control_messages().CaptureResult())
        for reply, status, message in ((empty, NOTHING, "nothing was captured"), (self.result(window_ns=0), OK, None)):
            self.assert_ends(self.ask("capture", capture=lambda request, context: iter([reply])), status, message)

    def test_names_from_a_target_cannot_control_the_terminal_or_break_the_json(self):
        messages = control_messages()
        ugly = "a\x1b[31m\u202e\n\"\\b"

        def capture(request, context):
            op = messages.OpSummary(name=ugly, type=ugly, count=1)
            yield self.result(hostname="../" + ugly, warnings=[ugly], top_ops=[op])

        def targets(request, context):
            return messages.ListTargetsResponse(targets=[messages.Target(pid=1, name=ugly, runtime=ugly, version=ugly, knowledge=ugly,
                                                                         file=ugly, address=ugly)])
        for command in ("capture", "targets"):
            shown = self.ask(command, capture=capture, targets=targets)
            self.assert_ends(shown, OK)
            self.assertNotRegex(shown.stdout, "[\x1b\u202e]")
            self.assertIn(r"a\x1b[31m\u{202e}\x0a", shown.stdout)
            listed = self.ask(f"{command} --json", capture=capture, targets=targets)
            self.assert_ends(listed, OK)
            self.assertNotIn("\x1b", listed.stdout)
            rows = listed.json["targets" if command == "targets" else "top_ops"]
            self.assertEqual(rows[0]["name"], ugly)
        for path in harness.xspace_files(self.logdir):
            self.assertRegex(path.name, r"^[\w.-]+\.xplane\.pb$")
            self.assertEqual(path.parent.parent, self.logdir / "plugins/profile")


if __name__ == "__main__":
    harness.main()
