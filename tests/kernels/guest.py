#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is promised on every kernel, tried in a guest that tests/kernels/boot started. Nothing here is about time: the guest is emulated.
GUEST_RESULT names the file for what was found, which docs/kernels.md is made of. The host's settings change on the way, lockdown for good."""
import collections
import json
import operator
import os
import pathlib
import platform
import signal
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness
import kernel_features
import test_lifecycle
import test_reference
import test_requests
import test_throttled
from test_modes import Fixture as OneProgram

OK, LOSS, HOST = 0, 6, 7
CYCLES = 20
# A capture's last probes: perf events go one after the other, each after grace periods of the kernel.
DETACH_S = 60
FOUND = {}
# The beginning of a warning, where sockets are followed at system calls.
SLOWER_CALLS = "Each system call of every process took"
PARANOID, JIT_HARDEN, LOCKDOWN = "/proc/sys/kernel/perf_event_paranoid", "/proc/sys/net/core/bpf_jit_harden", "/sys/kernel/security/lockdown"


def findings(daemon, *arguments):
    command = harness.ctl(daemon, "doctor", "--json", *arguments)
    return command.status, {f["code"]: f for f in command.json["findings"]}


class Guest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.before = harness.bpf_objects()

    def daemon_and(self, kind, *arguments, daemon=()):
        daemon, target = self.start(harness.Daemon, *daemon), self.start(kind, *arguments)
        harness.wait_target(daemon, target.pid, 60)
        return daemon, target

    def capture(self, daemon, target, *arguments, duration="1s", status=OK):
        """Its summary, and the XSpace; a status of None: whatever comes of it, and no XSpace."""
        logs = self.directory / f"logs-{len(list(self.directory.iterdir()))}"
        command = harness.ctl_capture(daemon, [target.pid], logs, *arguments, duration=duration)
        if status is None:
            return command.json, None
        self.assertEqual(command.status, status, command.stderr)
        return command.json, harness.XSpace(harness.xspace_files(logs)[0])

    def assert_nothing_left(self, daemon=None):
        self.assertEqual(harness.leftovers(self.before, DETACH_S, daemon), [])


class Programs(Guest):
    def test_the_verifier_takes_every_program(self):
        command = harness.run(harness.BUILD / "kernels/verifier")
        self.assertEqual(command.status, 0, command.stdout[-3000:])
        programs = {}
        for line in command.stdout.splitlines():
            name, verdict, *figures = line.split()
            self.assertIn(verdict, ("ok", "absent"))
            programs[name] = dict(zip(("instructions", "examined", "states", "microseconds"), map(int, figures)))
            print(f"     {name}: {programs[name] or 'not there'}")
        # Of what can be done in two ways, one way may be absent; and what makes a time more exact.
        absent = {name for name, figures in programs.items() if not figures}
        self.assertLessEqual(absent, {"on_data_ready", "on_segment", "on_sent", "on_received", "on_sending"})
        self.assertEqual(bool({"on_sent", "on_received"} & absent), not kernel_features.has_socket_tracepoints())
        self.assertGreater(len(programs), 10)
        # One of the two reports when bytes arrived.
        self.assertTrue(programs["on_data_ready"] or programs["on_segment"])
        FOUND["programs"] = programs


class Doctor(Guest):
    def test_the_host_is_ready_and_its_restrictions_are_reported(self):
        # What probes cost is measured, or not, by a clock that is emulated: three daemons may try.
        for _ in range(3):
            status, found = findings(self.start(harness.Daemon))
            self.assertEqual(status, OK, found)
            if "no-calibration" not in found:
                break
        self.assertEqual(found["ready"]["severity"], "ok")
        self.assertNotIn("no-sideband", found)
        self.assertIn("is 3: new processes are detected", found["perf-paranoid"]["text"])
        self.assertIn("is 2:", found["unprivileged-bpf"]["text"])
        self.assertTrue(any(code.startswith("nop5-") for code in found))
        FOUND["doctor"] = {code: [f["severity"], f["text"]] for code, f in found.items()}

    def test_a_new_process_is_found_without_a_client(self):
        daemon = self.start(harness.Daemon)
        target = self.start(OneProgram)
        # By its log: a question would make it look.
        harness.wait_until(lambda: f"found process {target.pid} " in daemon.stderr(), 30, "it is a target")


class Fixtures(Guest):
    def test_levels(self):
        daemon, target = self.daemon_and(OneProgram)
        counts = {}
        for level in (1, 2, 3):
            summary, xspace = self.capture(daemon, target, "--level", level, duration="400ms")
            # Its executors have the functions of the runtime's, and not their fields; a thread of an emulated CPU may stop for long between its two records.
            known = ("which run an executor belongs to", "shown without their name", "arrived late", SLOWER_CALLS)
            self.assertEqual([w for w in xspace.errors + xspace.warnings if not any(k in w for k in known)], [])
            self.assertEqual(len([w for w in xspace.warnings if SLOWER_CALLS in w]), not kernel_features.follows_at_sockets())
            self.assertTrue(xspace.events("SessionRun"))
            counts[level] = [bool(xspace.ops()), bool(xspace.events("waiting for a CPU"))]
            self.assertEqual(summary["shed"], [])
        self.assertEqual(list(counts.values()), [[False, False], [True, True], [True, True]])
        self.assertEqual(daemon.stop(), 0)
        self.assert_nothing_left()

    def test_results_are_the_same_in_a_capture(self):
        daemon, target = self.daemon_and(test_lifecycle.Fixture, "busy")
        self.capture(daemon, target, "--level", 3, duration="2s")
        self.assert_nothing_left(daemon)
        status, _, blocks, wrong = target.finish()
        self.assertEqual((status, wrong), (0, 0))
        self.assertGreater(blocks, 0)

    def test_cycles_leave_nothing(self):
        daemon, target = self.daemon_and(OneProgram)
        self.capture(daemon, target, duration="100ms")
        self.assert_nothing_left(daemon)
        pids = daemon.pids()
        descriptors = lambda: [len(os.listdir(f"/proc/{pid}/fd")) for pid in pids]
        before = descriptors()
        for _ in range(CYCLES):
            self.capture(daemon, target, "--level", 1, duration="50ms")
        self.assert_nothing_left(daemon)
        # Maps go after the programs.
        harness.wait_until(lambda: all(map(operator.le, descriptors(), before)), DETACH_S, f"no more descriptors than {before}")


class Clock(Guest):
    """Somebody sets the system clock within a window."""

    def step(self, daemon, begun, seconds):
        """In the middle of the next window; begun: of how many the probes have been attached before."""
        harness.wait_until(lambda: self.begun(daemon) > begun, 60, "probes are attached")
        time.sleep(2)
        time.clock_settime_ns(time.CLOCK_REALTIME, time.time_ns() + seconds * 10**9)

    def begun(self, daemon):
        return (daemon.state / "audit.log").read_text().count("verdict=start action=capture client_uid")

    def test_a_step_by_an_hour_changes_no_time_of_a_capture_and_is_reported(self):
        daemon, target = self.daemon_and(OneProgram, daemon=["--recorder", "1"])
        self.capture(daemon, target, duration="100ms")
        before = time.time_ns()
        for hours, words in ((1, "forward"), (-1, "back")):
            asked, begun = time.time_ns(), time.monotonic()
            stepper = threading.Thread(target=self.step, args=(daemon, self.begun(daemon), hours * 3600))
            stepper.start()
            summary, xspace = self.capture(daemon, target, "--level", 1, duration="4s")
            took = time.monotonic() - begun
            stepper.join()
            self.assertLess(took, 60)
            self.assertLess(abs(summary["window_ns"] - 4 * 10**9), 10**8)
            warned = [w for w in summary["warnings"] if "clock was set" in w]
            self.assertEqual(len(warned), 1, summary["warnings"])
            self.assertRegex(warned[0], rf"^[0-3]\.\d+ s after the window began, the system clock was set {words} by 3(600\.0|599\.9)\d+ s: ")
            self.assertIn(warned[0], xspace.warnings)
            stats = xspace.plane_stats["Task Environment"]
            # By the clock as it was: the window began soon after the request.
            self.assertGreater(stats["profile_start_time"], asked)
            self.assertLess(stats["profile_start_time"], asked + 60 * 10**9)
            self.assertEqual(stats["profile_stop_time"] - stats["profile_start_time"], summary["window_ns"])
            self.assertTrue(xspace.events("SessionRun"))
            self.assertLess(max(e.start_ps + e.duration_ps for e in xspace.events()), 1.01 * summary["window_ns"] * 1000)
        # The recorder has kept both steps, and what was before them.
        snapshot = harness.ctl(daemon, "snapshot", "-o", self.directory / "snapshot", "--json")
        self.assertIn(snapshot.status, (OK, LOSS), snapshot.stderr)
        words = [w.split("was set ")[1].split()[0] for w in snapshot.json["warnings"] if "clock was set" in w]
        self.assertEqual(words, ["forward", "back"])
        start = harness.XSpace(harness.xspace_files(self.directory / "snapshot")[0]).plane_stats["Task Environment"]["profile_start_time"]
        self.assertLess(abs(start - before), 120 * 10**9)


class Kills(Guest):
    def begin(self):
        daemon, target = self.daemon_and(test_lifecycle.Fixture, "busy")
        self.capture(daemon, target, duration="100ms")
        client = self.start(harness.Process, "capture", [harness.OUT / "tfprofctl", "--daemon", f"unix:{daemon.socket}", "capture", "--pid", target.pid,
                                                         "--duration", "60s", "-o", self.directory / "killed"])
        held = lambda: {key for key, pids in harness.bpf_holders().items() if pids & set(daemon.pids())}
        self.assertTrue(harness.wait_until(held, 30, "something is attached"))
        time.sleep(2)
        return daemon, target, client

    def test_a_target_that_is_killed_leaves_what_was_seen(self):
        daemon, target, client = self.begin()
        target.send(signal.SIGKILL)
        self.assertEqual(client.wait(60), LOSS, client.stderr())
        xspace = harness.XSpace(harness.xspace_files(self.directory / "killed")[0])
        self.assertTrue(xspace.ops())
        self.assertTrue(any(f"Process {target.pid} " in w and "ended" in w for w in xspace.warnings), xspace.warnings)
        self.assert_nothing_left(daemon)

    def kill_role(self, name):
        daemon, target, client = self.begin()
        before = daemon.roles()
        os.kill(before[name], signal.SIGKILL)
        self.assertNotEqual(client.wait(60), OK)
        daemon.wait_roles(replaced=[before["broker"]], timeout=30)
        self.assert_nothing_left(daemon)
        self.capture(daemon, target, duration="100ms")
        self.assertEqual(target.finish()[3], 0)

    def test_a_killed_broker_is_replaced_and_leaves_nothing(self):
        self.kill_role("broker")

    def test_a_killed_front_is_replaced_and_leaves_nothing(self):
        self.kill_role("front")

    def test_a_killed_supervisor_leaves_nothing(self):
        daemon, target, client = self.begin()
        daemon.send(signal.SIGKILL)
        self.assertNotEqual(client.wait(60), OK)
        harness.wait_until(lambda: not daemon.running() and not daemon.pids(), 30, "all roles end")
        self.assert_nothing_left()
        self.assertEqual(target.finish()[3], 0)


class Sites(Guest):
    def test_a_hit_for_each_call_and_the_same_results_and_red_zone(self):
        libraries = [harness.BUILD / "sites" / f"{name}.so" for name in ("gcc-O2-cf", "clang-O1")]
        command = harness.run(harness.BUILD / "sites/probe_sites", "check", *libraries, timeout=300)
        self.assertEqual(command.status, 0, command.stdout[-3000:] + command.stderr)
        self.assertIn("red", command.stdout)


class TensorFlow(Guest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.before_all = harness.bpf_objects()
        cls.logs = pathlib.Path(harness.tempfile.mkdtemp(prefix="tfprofd-guest-"))
        cls.server = harness.NativeServer(["half_plus_two", "layered"], profiler=True, arguments=["--truth", cls.logs / "truth"])
        cls.addClassCleanup(cls.server.stop)
        cls.daemon = harness.Daemon("--recorder", "1", "--recorder-overhead", "100")
        cls.addClassCleanup(cls.daemon.stop)
        cls.target = harness.wait_target(cls.daemon, cls.server.pid, 60)
        harness.read_files(cls.daemon, cls.server)

    def test_ops_are_those_of_the_in_process_profiler(self):
        load = self.start(harness.Load, self.server, model="layered", clients=1)
        at = time.time_ns() + 8 * 10**9
        request = dict(duration_ms=4000, level=2, emit_xspace=True, start_timestamp_ns=at)
        calls = [harness.rpc(address, "Profile", harness.profile_request(**request), harness.profiler_service().ProfileResponse)
                 for address in (self.server.profiler_address, self.target["address"])]
        reference, ours = (harness.response_xspace(future.result(200)) for _, future in calls)
        self.assertEqual(load.finish()["errors"], 0)
        # An emulated CPU takes long to attach: what both have of the window is compared.
        known = (SLOWER_CALLS, "later than requested")
        self.assertEqual([w for w in ours.errors + ours.warnings if not any(k in w for k in known)], [])
        edge = 500_000_000
        begin, end = max(at, ours.plane_stats["Task Environment"]["profile_start_time"]) + edge, at + 4 * 10**9 - edge
        theirs, mine = test_reference.ops_by_name(reference), test_reference.ops_by_name(ours)
        total, missing, extra = 0, 0, 0
        for name, events in theirs.items():
            pairs, m, x = test_reference.pair(mine.get(name, []), events, begin, end)
            total, missing, extra = total + len(pairs) + m, missing + m, extra + x
        print(f"     {total} op events compared, {missing} missing, {extra} more")
        self.assertGreater(total, 500)
        self.assertEqual((missing, extra), (0, 0))
        FOUND["ops"] = total

    def wait_for_detaching(self):
        """Perf events of the capture before go one after the other, and the server is slower until then: waits until none has gone for a while."""
        own = lambda: len({key for key, pids in harness.bpf_holders().items() if key[0] == "link" and self.daemon.broker() in pids})
        least, calm = own(), 0
        for _ in range(DETACH_S):
            time.sleep(1)
            now = own()
            least, calm = min(least, now), 0 if now < least else calm + 1
            if calm == 10:
                break

    def test_allocations_are_in_ops(self):
        load = self.start(harness.Load, self.server, model="layered", clients=1)
        runs = lambda: self.capture(self.daemon, self.server, "--level", 1, duration="500ms", status=None)[0]["runs"]
        harness.wait_until(runs, 60, "the server has work")
        for level, arguments in ((2, ["--memory"]), (3, [])):
            _, xspace = self.capture(self.daemon, self.server, "--level", level, *arguments)
            events = xspace.events("MemoryAllocation")
            self.assertTrue(events and all(e.stats["allocation_bytes"] > 0 for e in events))
            self.assertGreater(sum("tf_op" in e.stats for e in events), 0.9 * len(events))
            self.assertTrue(xspace.events("MemoryDeallocation"))
        self.assertEqual(load.finish()["errors"], 0)

    def test_threads_whose_quota_is_used_up_are_throttled(self):
        group = self.start(test_throttled.Cgroup)
        # The group goes before the server does.
        self.addCleanup(lambda: (group.root / "cgroup.procs").write_text(str(self.server.pid)))
        group.add(self.server)
        load = self.start(harness.Load, self.server, model="layered", clients=2)
        runs = lambda: self.capture(self.daemon, self.server, "--level", 1, duration="500ms", status=None)[0]["runs"]
        harness.wait_until(runs, 60, "the server has work")
        _, xspace = self.capture(self.daemon, self.server)
        self.assertEqual(xspace.events("throttled"), [])
        before = group.throttled()
        group.limit(test_throttled.QUOTA_MS)
        found, xspace = self.capture(self.daemon, self.server, duration="3s")
        times, spent = (b - a for a, b in zip(before, group.throttled()))
        group.limit(None)
        self.assertEqual(load.finish()["errors"], 0)
        events = xspace.events("throttled")
        seen = sum(e.duration_ps for e in events) / 1000
        named = [e for e in events if e.stats.get("cgroup")]
        print(f"     {len(events)} throttled events of {seen / 1e6:.0f} ms, {len(named)} with a cgroup; by the kernel {times} stops of {spent / 1e6:.0f} ms")
        self.assertGreater(times, 5)
        self.assertGreater(found["throttled_ns"], 0)
        self.assertEqual({(e.stats["cgroup"], e.stats["quota"]) for e in named}, {(group.path, "20 % of a CPU, 20.0 ms per 100 ms")})
        self.assertGreater(len(named), len(events) / 2)
        # The kernel counts a stop of a CPU once, however many threads wait; some of the time is before and after the window.
        self.assertGreater(seen, 0.5 * spent)

    def test_zz_requests_are_the_clients_and_nothing_is_left(self):
        self.wait_for_detaching()
        case = test_requests.Case("native REST", True, "half_plus_two", 4, 40)
        log, path = self.directory / "client.log", self.directory / "requests.ndjson"
        client = harness.LoadClient(self.server.port, True, log, "--clients", 4, "--model", case.model, "--rate", case.rate, "--warm", 1,
                                    # It must still be at it when the window is open.
                                    "--duration", 40, prefix=["chrt", "--fifo", "1"])
        self.addCleanup(client.stop)
        command = harness.ctl_capture(self.daemon, [self.server.pid], self.directory / "log", "--requests", path, duration="5s")
        self.assertEqual(command.status, OK, command.stderr)
        snapshot = harness.ctl(self.daemon, "snapshot", "--last", "5s", "-o", self.directory / "snapshot", "--json")
        self.assertIn(snapshot.status, (OK, LOSS), snapshot.stderr)
        self.assertTrue(harness.XSpace(harness.xspace_files(self.directory / "snapshot")[0]).events("SessionRun"))
        case.client, case.port = client.finish(), self.server.port
        case.requests = [test_requests.parse(line, True) for line in path.read_text().splitlines()]
        self.assertEqual(self.daemon.stop(), 0)
        self.assertEqual(harness.leftovers(self.before_all, DETACH_S), [])
        self.assertEqual(test_lifecycle.breakpoints(self.server.pid, "libtensorflow_framework.so.2"), 0)
        # Its log is complete when it has ended.
        self.assertEqual(self.server.stop(60), 0)
        truth = {r["id"]: r for r in map(json.loads, (self.logs / "truth").read_text().splitlines())}
        figures = test_requests.compare(case, truth)
        print(f"     {figures.whole} whole requests, {dict(figures.right)} right, {sum(figures.wrong.values())} wrong")
        self.assertEqual(figures.problems, [])
        self.assertEqual(figures.right, collections.Counter(exact=figures.whole))
        self.assertGreater(figures.whole, 20)
        # When their bytes came is known, not only when they were read.
        known = [r for r in case.requests if test_requests.is_whole(r) and not r["no_arrival"]]
        self.assertGreater(len(known), 0.9 * figures.whole)
        FOUND["requests"] = figures.whole


class Hosts(Guest):
    """Settings that hosts have: each is tried, and has its line."""

    def setting(self, path, value):
        file = pathlib.Path(path)
        before = file.read_text()
        self.addCleanup(file.write_text, before)
        file.write_text(value)

    def check_works(self, code, text, *daemon, **how):
        daemon, target = self.start(harness.Daemon, *daemon, **how), self.start(OneProgram)
        harness.wait_target(daemon, target.pid, 30)
        status, found = findings(daemon)
        self.assertEqual(status, OK, found)
        self.assertEqual(found[code]["severity"], "ok")
        self.assertIn(text, found[code]["text"])
        self.assertNotIn("no-sideband", found)
        self.assertTrue(self.capture(daemon, target, duration="300ms")[1].ops())
        self.assert_nothing_left(daemon)
        FOUND.setdefault("hosts", []).append([code, found[code]["text"]])

    def check_refused(self, code, text, *prefix):
        command = harness.run(*prefix, harness.OUT / "tfprofctl", "doctor", "--json")
        found = {f["code"]: f for f in command.json["findings"]}
        self.assertEqual(command.status, HOST, found)
        self.assertEqual(found[code]["severity"], "error")
        self.assertIn(text, found[code]["text"])
        daemon = harness.run(*prefix, harness.OUT / "tfprofd", "--foreground", "--state-dir", self.directory / "state", "--no-listen")
        self.assertEqual(daemon.status, HOST, daemon.stderr)
        self.assertIn(code, daemon.stderr)
        FOUND.setdefault("refused", []).append([code, found[code]["text"]])

    def test_1_perf_event_paranoid_4(self):
        self.setting(PARANOID, "4")
        self.check_works("perf-paranoid", "is 4:")

    def test_1_bpf_jit_harden_2(self):
        self.setting(JIT_HARDEN, "2")
        self.check_works("jit-harden", "is 2:")

    def test_1_little_locked_memory_and_no_way_to_raise_it(self):
        self.check_works("memlock", str(8 << 20), prefix=["prlimit", f"--memlock={8 << 20}:{8 << 20}", "setpriv", "--bounding-set", "-sys_resource",
                                                          "--inh-caps", "-sys_resource"])

    def test_1_tracefs_is_not_mounted(self):
        self.assertEqual(harness.run("umount", "/sys/kernel/tracing").status, 0)
        self.addCleanup(harness.run, "mount", "-t", "tracefs", "none", "/sys/kernel/tracing")
        self.check_works("no-tracefs", "not mounted")

    def test_1_cgroup_v1(self):
        self.assertEqual(harness.run("umount", "/sys/fs/cgroup").status, 0)
        self.assertEqual(harness.run("mount", "-t", "cgroup", "-o", "pids", "none", "/sys/fs/cgroup").status, 0)
        self.addCleanup(lambda: (harness.run("umount", "/sys/fs/cgroup"), harness.run("mount", "-t", "cgroup2", "none", "/sys/fs/cgroup")))
        self.check_works("cgroup-v1", "no cgroup v2")

    def test_2_a_kernel_without_btf_is_refused(self):
        self.check_refused("no-btf", "BTF", "unshare", "-m", "sh", "-c", 'mount -t tmpfs none /sys/kernel/btf && mount -t tmpfs none /run && exec "$@"', "sh")

    def test_3_lockdown_integrity(self):
        pathlib.Path(LOCKDOWN).write_text("integrity")
        self.check_works("lockdown", "integrity")

    def test_4_lockdown_confidentiality_is_refused(self):
        pathlib.Path(LOCKDOWN).write_text("confidentiality")
        self.check_refused("lockdown", "confidentiality", "unshare", "-m", "sh", "-c", 'mount -t tmpfs none /run && exec "$@"', "sh")


SHORT = [(Programs, "every_program"), (Doctor, "ready"), (Fixtures, "levels")]
ALL = [(kind, "") for kind in (Programs, Doctor, Fixtures, Clock, Kills, Sites, TensorFlow, Hosts)]


def load_tests(loader, tests, pattern):
    """In this order: lockdown comes last."""
    chosen = unittest.TestSuite()
    for kind, word in SHORT if os.environ.get("GUEST_SHORT") else ALL:
        chosen.addTest(unittest.TestSuite(test for test in loader.loadTestsFromTestCase(kind) if word in test.id()))
    return chosen


def write_found():
    FOUND["release"] = platform.release()
    pathlib.Path(os.environ["GUEST_RESULT"]).write_text(json.dumps(FOUND, indent=1))


if __name__ == "__main__":
    try:
        harness.main()
    finally:
        write_found()
