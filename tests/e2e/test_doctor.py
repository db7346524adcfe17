#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tfprofctl doctor, and what it rests on: the calibration of this machine, the self-test of probes on 5-byte nops, and
the preflight of every capture. As root."""
import os
import pathlib
import re
import subprocess
import tempfile
import time

import harness

CTL = harness.OUT / "tfprofctl"
NOBODY = 65534
OK, INTERNAL, USAGE, DENIED, NO_TARGET, NOTHING, LOSS, HOST = range(8)
# Runs what follows where no daemon can be listening at the default address.
HIDE_DAEMON = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /run && exec "$@"', "sh"]
NO_PROXY = {name: "" for name in ("grpc_proxy", "https_proxy", "http_proxy", "no_grpc_proxy", "no_proxy")}


def has_uprobe_multi():
    return " bpf_uprobe_multi_link_attach" in pathlib.Path("/proc/kallsyms").read_text()


class DoctorTestCase(harness.TestCase):
    def doctor(self, *arguments, daemon=None, env=None, prefix=(), **how):
        """The command, and its findings by code, each (severity, text, remedy); where several have one code, the first."""
        where = ["--daemon", f"unix:{daemon.socket}"] if daemon else []
        prefix = prefix or ([] if daemon else HIDE_DAEMON)
        command = harness.run(*prefix, CTL, *where, "doctor", "--json", *arguments, env={**NO_PROXY, **(env or {})}, **how)
        found = {}
        self.assertEqual(command.stderr, "")
        for finding in command.json["findings"]:
            self.assertEqual(set(finding), {"code", "severity", "text", "remedy"})
            self.assertRegex(finding["code"], r"^[a-z0-9-]+$")
            self.assertIn(finding["severity"], ("ok", "note", "warning", "error"))
            self.assertTrue(finding["text"])
            found.setdefault(finding["code"], (finding["severity"], finding["text"], finding["remedy"]))
        self.assertEqual(command.json["exit_code"], command.status)
        return command, found

    def assert_not_ready(self, command, found, code, status, text=""):
        self.assertEqual(found[code][0], "error")
        self.assertIn(text, found[code][1])
        self.assertNotIn("ready", found)
        self.assertEqual(command.status, status)


class WithDaemon(DoctorTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.before = harness.bpf_objects()
        state = tempfile.TemporaryDirectory()
        cls.addClassCleanup(state.cleanup)
        # Where nothing is stored, it measures.
        cls.daemon = harness.Daemon("--state-dir", state.name)
        cls.addClassCleanup(cls.daemon.stop)
        cls.server = harness.NativeServer(["half_plus_two"], http=False, self_load=1)
        cls.addClassCleanup(cls.server.stop)
        harness.wait_target(cls.daemon, cls.server.pid)

    def test_this_host_is_ready(self):
        command, found = self.doctor(daemon=self.daemon)
        self.assertEqual(command.status, OK)
        self.assertEqual(found["ready"], ("ok", "captures work here", None))
        self.assertEqual(found["daemon"][0], "ok")
        self.assertRegex(found["kernel"][1], rf"Linux {re.escape(os.uname().release)} is no older than 6\.1, the oldest")
        self.assertNotIn("error", {severity for severity, _, _ in found.values()})

    def test_the_cost_of_probes_was_measured_and_nothing_is_left(self):
        _, found = self.doctor(daemon=self.daemon)
        emulated, stepped, switch, message = map(int, re.findall(r"(\d+) ns", found["probe-cost"][1]))
        self.assertTrue(50 <= emulated < 100_000, emulated)
        self.assertGreater(stepped, 2 * emulated)
        self.assertTrue(50 <= switch < 100_000, switch)
        # At least a quarter of a probe, which is assumed where the machine's noise hides it.
        self.assertTrue(50 <= message < 1_000_000, message)
        self.assertEqual(harness.leftovers(self.before, daemon=self.daemon), [])
        self.assertEqual(len(self.daemon.pids()), 1 + len(harness.ROLES))

    def test_the_nop5_self_test_reports_this_kernels_behavior(self):
        _, found = self.doctor(daemon=self.daemon)
        # Whether calls return something else, as another program sees it that puts a probe there.
        tried = harness.run(harness.BUILD / "sites/probe_sites", "check").stdout
        corrupts = "red_zone: a_naive_probe_on_the_nop_corrupts_results" in tried
        self.assertNotEqual(corrupts, "skipped: red_zone: a_naive_probe_on_the_nop" in tried, tried)
        self.assertEqual({"nop5-corrupts", "nop5-safe"} & set(found), {"nop5-corrupts" if corrupts else "nop5-safe"})
        self.assertEqual((found.get("nop5-corrupts") or found["nop5-safe"])[0], "note" if corrupts else "ok")

    def test_a_target_is_named_with_what_is_not_shown(self):
        command, found = self.doctor("--pid", self.server.pid, daemon=self.daemon)
        self.assertEqual(command.status, OK)
        self.assertEqual(found["target"][0], "ok")
        self.assertRegex(found["target"][1], rf"process {self.server.pid} \(native_server\) runs .*: [1-9]\d* functions")
        self.assertEqual(found["ready"][0], "ok")
        for severity, _, _ in (f for code, f in found.items() if code == "not-shown"):
            self.assertEqual(severity, "warning")

    def test_a_process_without_a_known_runtime_is_named_as_such(self):
        asleep = self.start(harness.Process, "sleep", ["sleep", "60"])
        command, found = self.doctor("--pid", asleep.pid, daemon=self.daemon)
        self.assertEqual(command.status, OK)
        self.assertEqual(found["no-runtime"], ("note", f"process {asleep.pid} (sleep) has no known runtime: no operations are shown", None))
        self.assertEqual(found["ready"][0], "ok")

    def test_a_process_that_cannot_be_captured_is_explained(self):
        ended = subprocess.Popen(["true"])
        self.addCleanup(ended.wait)
        harness.wait_until(lambda: pathlib.Path(f"/proc/{ended.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z", 5,
                           "a process has ended")
        thread = next(int(t) for t in os.listdir(f"/proc/{self.server.pid}/task") if int(t) != self.server.pid)
        for pid, code, status in ((4194303, "no-process", NO_TARGET),
                                  (2, "kernel-thread", NO_TARGET), (ended.pid, "ended", NO_TARGET),
                                  (thread, "no-process", NO_TARGET)):
            command, found = self.doctor("--pid", pid, daemon=self.daemon)
            self.assert_not_ready(command, found, code, status, str(pid))
            self.assertTrue(found[code][2])

    def test_a_server_without_symbols_is_explained(self):
        library = self.directory / "libtensorflow_framework.so.2"
        source = self.directory / "program.c"
        # A library with the runtime's name and none of its functions.
        (self.directory / "nothing.c").write_text("int nothing(void); int nothing(void) { return 0; }\n")
        source.write_text("#include <unistd.h>\nint nothing(void);\nint main(void) { return nothing() + (int)sleep(60); }\n")
        for command in (["gcc", "-shared", "-fPIC", "-o", library, self.directory / "nothing.c"],
                        ["gcc", "-o", self.directory / "program", source, library, f"-Wl,-rpath,{self.directory}"]):
            self.assertEqual(harness.run(*command).status, 0)
        program = self.start(harness.Process, "program", [self.directory / "program"])
        harness.wait_until(lambda: str(library) in pathlib.Path(f"/proc/{program.pid}/maps").read_text(), 5, "it is loaded")
        command, found = self.doctor("--pid", program.pid, daemon=self.daemon)
        self.assert_not_ready(command, found, "no-symbols", NO_TARGET, str(program.pid))

    def test_a_file_that_cannot_be_read_is_explained_and_ends_as_a_capture_would(self):
        library = self.directory / "libtensorflow_framework.so.2"
        library.write_bytes(b"\x7fELF" + bytes(8188))
        program = ("import mmap, sys, time; f = open(sys.argv[1], 'rb'); "
                   "m = mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC); print('ready', flush=True); time.sleep(60)")
        mapped = self.start(harness.Process, "mapped", [harness.PYTHON, "-c", program, library])
        mapped.wait_ready(lambda: mapped.line("ready"))
        command, found = self.doctor("--pid", mapped.pid, daemon=self.daemon)
        self.assertIn("malformed", found)
        self.assertNotIn("root", found["malformed"][2])
        self.assertEqual(command.status, harness.ctl(self.daemon, "plan", "--pid", mapped.pid).status)
        # It keeps nobody from capturing the others.
        command = harness.ctl(self.daemon, "capture", "--duration", "300ms", "-o", self.directory / "log", "--json")
        self.assertEqual(command.status, OK, command.stderr)
        self.assertTrue(any(f"Process {mapped.pid} (python) is left out" in w for w in command.json["warnings"]), command.json["warnings"])

    def test_a_process_of_another_user_is_not_permitted(self):
        address = ["--daemon", self.daemon.address]
        command = harness.run(CTL, *address, "doctor", "--json", "--pid", self.server.pid, user=NOBODY, env=NO_PROXY)
        self.assertEqual(command.status, DENIED, command.stderr)
        codes = {f["code"]: f["severity"] for f in command.json["findings"]}
        self.assertEqual(codes["not-permitted"], "error")

    def test_a_socket_that_the_user_may_not_use_is_an_error(self):
        command = harness.run(CTL, "--daemon", self.daemon.socket, "doctor", "--json", user=NOBODY, env=NO_PROXY)
        self.assertEqual(command.status, DENIED, command.stderr)
        self.assertEqual([(f["code"], f["severity"]) for f in command.json["findings"]], [("socket-access", "error")])

    def test_a_proxy_that_tensorboard_would_ask_is_a_warning(self):
        for env, expected in (({"http_proxy": "http://proxy:1"}, True), ({"grpc_proxy": "http://proxy:1"}, True),
                              ({"http_proxy": "http://proxy:1", "no_proxy": "localhost,127.0.0.1"}, False),
                              ({"no_proxy": "example.com"}, False)):
            command, found = self.doctor(daemon=self.daemon, env=env)
            self.assertEqual("proxy-env" in found, expected, env)
            self.assertEqual(command.status, OK)
            if expected:
                self.assertEqual(found["proxy-env"][0], "warning")
                self.assertIn("no_proxy=localhost", found["proxy-env"][2])

    def test_the_text_has_a_line_for_each_finding_and_its_remedy_below(self):
        command = harness.ctl(self.daemon, "doctor", env={**NO_PROXY, "http_proxy": "http://proxy:1"})
        self.assertEqual((command.status, command.stderr), (OK, ""))
        lines = command.stdout.splitlines()
        self.assertRegex(lines[0], r"^warning  proxy-env: http_proxy is set: ")
        self.assertRegex(lines[1], r"^         set no_proxy=")
        self.assertEqual(lines[-1], "ok       ready: captures work here")

    def test_bad_usage_is_explained(self):
        for arguments, message in ((["--pid", "0"], "invalid process ID '0'"), (["--pid", "x"], "invalid process ID 'x'"),
                                   (["12"], "unexpected argument '12'")):
            command = harness.ctl(self.daemon, "doctor", *arguments)
            self.assertEqual(command.status, USAGE)
            self.assertIn(message, command.stderr)


class Calibration(DoctorTestCase):
    def cost(self, daemon):
        return self.doctor(daemon=daemon)[1]["probe-cost"][1]

    def measured(self, state):
        """The cost that a new daemon reports, and the file in which it kept its measurement. It keeps none of a busy machine, and measures again
        after a minute: a new one does at once."""
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        for _ in range(10):
            daemon = self.start(harness.Daemon, "--state-dir", state)
            cost, kept = self.cost(daemon), state / "cache/calibration"
            text = kept.read_text() if kept.exists() else ""
            daemon.stop()
            if text.startswith(boot):
                return cost, text
        self.fail("no measurement was kept")

    def test_the_cost_is_measured_once_per_boot(self):
        first, text = self.measured(self.directory / "measured")
        boot, links, emulated, stepped, *_ = text.split()
        self.assertIn(f"{emulated} ns here, {stepped} ns", first)
        # What another daemon finds there it takes for true, and does not touch.
        state = self.directory / "state"
        (state / "cache").mkdir(parents=True)
        (state / "cache/calibration").write_text(f"{boot} {links} 123 4567 89 1 7654 98 60000\n")
        other = self.start(harness.Daemon, "--state-dir", state)
        self.assertEqual(self.cost(other), "a probe costs 123 ns here, 4567 ns where it is "
                         "single-stepped, a switch of threads 89 ns, and a message at a socket 7654 ns")
        self.assertEqual((state / "cache/calibration").read_text(), f"{boot} {links} 123 4567 89 1 7654 98 60000\n")
        # Of another boot it is worth nothing.
        (state / "cache/calibration").write_text(f"{'0' * 36} {links} 123 4567 89 1 7654 98 60000\n")
        other.stop()
        self.assertNotIn("123 ns here", self.measured(state)[0])

    def test_a_missing_cache_is_reported(self):
        (self.directory / "state").mkdir()
        (self.directory / "state/cache").touch()
        daemon = self.start(harness.Daemon, "--state-dir", self.directory / "state")
        command, found = self.doctor(daemon=daemon)
        self.assertEqual((command.status, found["no-cache"][0]), (OK, "note"))

    def test_it_is_quick_and_works_by_perf_events(self):
        for arguments in ([], ["--probe-links", "perf-event"]):
            before = harness.bpf_objects()
            daemon = harness.Daemon(*arguments)
            self.addCleanup(daemon.stop)
            started = time.monotonic()
            _, found = self.doctor(daemon=daemon)
            # Far beyond what it takes: this machine may be busy.
            self.assertLess(time.monotonic() - started, 5)
            self.assertIn("probe-cost", found)
            self.assertEqual("perf-event-probes" in found, bool(arguments) or not has_uprobe_multi())
            self.assertEqual(harness.leftovers(before, daemon=daemon), [])
            self.assertEqual(len(daemon.pids()), 1 + len(harness.ROLES))
            daemon.stop()


class WithoutDaemon(DoctorTestCase):
    def test_without_a_daemon_a_private_one_is_used(self):
        command, found = self.doctor()
        self.assertEqual(command.status, OK)
        self.assertEqual(found["private-daemon"][0], "note")
        self.assertIn("ready", found)

    def test_a_missing_daemon_is_an_error(self):
        command = harness.run(CTL, "--daemon", self.directory / "none", "doctor", "--json", env=NO_PROXY)
        self.assertEqual(command.status, INTERNAL, command.stderr)
        self.assertEqual([f["code"] for f in command.json["findings"]], ["no-daemon"])

    def test_a_missing_capability_is_named(self):
        for drop, code in (("cap_bpf", "no-cap-bpf"), ("cap_perfmon", "no-cap-perfmon"), ("cap_sys_ptrace", "no-cap-sys-ptrace")):
            prefix = [*HIDE_DAEMON, "setpriv", f"--bounding-set=-{drop[4:]}", f"--inh-caps=-{drop[4:]}"]
            command, found = self.doctor(prefix=prefix)
            self.assert_not_ready(command, found, code, HOST, drop.upper())
            self.assertIn("root", found[code][1])

    def test_a_kernel_without_type_information_is_named(self):
        hide = [*HIDE_DAEMON, "sh", "-c", 'mount -t tmpfs none /sys/kernel/btf && exec "$@"', "sh"]
        command, found = self.doctor(prefix=hide)
        self.assert_not_ready(command, found, "no-btf", HOST, "BTF")

    def test_a_pid_namespace_of_its_own_is_named(self):
        prefix = ["unshare", "-pf", "--mount-proc", "sh", "-c", 'mount -t tmpfs none /run && "$@"', "sh"]
        command, found = self.doctor(prefix=prefix)
        self.assert_not_ready(command, found, "pid-namespace", HOST, "pid namespace")

    def test_hidden_processes_are_a_warning(self):
        hide = [*HIDE_DAEMON, "sh", "-c", 'mount -t proc -o hidepid=2 proc /proc && exec "$@"', "sh"]
        command, found = self.doctor(prefix=hide)
        self.assertEqual(found["hidepid"][0], "warning")
        self.assertEqual(command.status, OK)


if __name__ == "__main__":
    harness.main()
