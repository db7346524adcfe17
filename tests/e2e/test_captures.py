#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Captures beside each other: each gets its own window and nobody's else, there are only so many, and they can be ended. As root."""
import glob
import gzip
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest.mock
import urllib.request

import grpc

import harness
from test_delays import Client, Log, Server, window

OK, INTERNAL, USAGE, DENIED, NO_TARGET, NOTHING, LOSS = range(7)
WINDOW_NS = 2_000_000_000
# How long a call may still run after its bytes are the client's: a few turns of the scheduler on a busy machine.
STILL_IN_THE_CALL_NS = 50_000_000
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class TestCase(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.serve_with()

    def serve_with(self, *arguments):
        self.daemon = self.start(harness.Daemon, *arguments)

    def begin(self, number, pid, duration="2s", *arguments, user=None):
        """A tfprofctl that captures; finish() it."""
        argv = [harness.OUT / "tfprofctl", "--daemon", f"unix:{self.daemon.socket}", "capture", "--pid", str(pid), "-d", duration, "--json",
                "-o", self.directory / f"logdir-{number}", "--requests", self.directory / f"requests-{number}", *arguments]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def finish(self, process, status=OK):
        out, err = process.communicate(timeout=harness.ANSWER_TIMEOUT_S)
        self.assertEqual(process.returncode, status, err)
        return json.loads(out) if out else err


class Windows(TestCase):
    def check_own(self, result, log):
        """What a capture shows is what the client had within its window, each once."""
        start, end = window(result)
        with open(result["requests_file"], encoding="utf-8") as lines:
            requests = [json.loads(line) for line in lines]
        self.assertEqual([r for r in requests if r["lost"]], [])
        whole = [log.find(r)["id"] for r in requests if not r["cut_start"] and not r["cut_end"]]
        inside = {e["id"] for e in log.exchanges if e["send_ns"] > start and e["receive_ns"] < end}
        crossing = {e["id"] for e in log.exchanges if e["send_ns"] <= start < e["receive_ns"] or e["send_ns"] < end <= e["receive_ns"]}
        self.assertEqual(len(whole), len(set(whole)))
        # The client can have an answer before the call that wrote it has returned, which is where the server's part ends:
        # of these the window's end may cut the last.
        missing = inside - set(whole)
        shown = [(r, log.find(r)) for r in requests if log.find(r) and log.find(r)["id"] in missing]
        late = {e["id"] for r, e in shown if r["cut_end"] and end - e["receive_ns"] < STILL_IN_THE_CALL_NS}
        self.assertEqual(missing - late, set(), (shown, start, end))
        self.assertLessEqual(set(whole), inside | crossing)
        self.assertEqual(result["dropped"], 0)
        self.assertAlmostEqual(result["window_ns"], WINDOW_NS, delta=1000)
        return len(whole), start

    def run_beside(self, count, gap_s, cancelled=()):
        server = self.start(Server, self.directory, ["half_plus_two"])
        harness.wait_target(self.daemon, server.pid)
        client = self.start(Client, self.directory, server, "half_plus_two", clients=4, rate=400)
        running = []
        for number in range(count):
            running.append(self.begin(number, server.pid))
            time.sleep(gap_s)
        for number in cancelled:
            running[number].send_signal(signal.SIGINT)
            self.finish(running[number], INTERNAL)
        results = [self.finish(p) for number, p in enumerate(running) if number not in cancelled]
        time.sleep(0.2)
        log = Log(client.finish())
        found = [self.check_own(result, log) for result in results]
        print("     whole requests:", *(n for n, _ in found))
        self.assertEqual(len({start for _, start in found}), len(results))
        return found

    def test_two_overlapping_captures_have_exactly_their_own_runs(self):
        (_, first), (_, second) = self.run_beside(2, 0.7)
        self.assertLess(second - first, WINDOW_NS)

    def test_ten_overlapping_captures_have_exactly_their_own_runs_even_if_some_are_cancelled(self):
        self.run_beside(12, 0.1, cancelled=(3, 7))


class Limits(TestCase):
    def test_captures_are_limited_in_total(self):
        # What one user may have of them: test_shares.py.
        count = 2
        self.serve_with("--max-captures", count)
        server = self.start(harness.NativeServer, models=("half_plus_two",), self_load=1, http=False)
        harness.wait_target(self.daemon, server.pid)
        running = [self.begin(number, server.pid, "2s") for number in range(count)]
        harness.wait_until(lambda: len(self.status()["captures"]) == count, 10, "they run")
        refused = self.finish(self.begin("refused", server.pid), INTERNAL)
        self.assertIn("2 captures are already running (tfprofd --max-captures); wait for one to end", refused)
        with self.assertRaises(grpc.RpcError) as caught:
            harness.profile(self.daemon.address, duration_ms=200)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        for process in running:
            self.finish(process)
        self.finish(self.begin("after", server.pid, "200ms"))

    def status(self):
        return harness.ctl(self.daemon, "status", "--json").json


class Later(harness.TestCase):
    def test_captures_load_the_programs_that_the_first_one_has_prepared(self):
        daemon = self.start(harness.Daemon, "--verbose")
        server = self.start(harness.NativeServer, ["half_plus_two"])
        address = harness.wait_target(daemon, server.pid)["address"]
        for _ in range(3):
            harness.profile(address, duration_ms=1)
        self.assertNotIn("cannot load the kept programs", daemon.stderr())


class Stop(TestCase):
    def test_a_stopped_capture_delivers_what_it_has(self):
        server = self.start(harness.NativeServer, models=("half_plus_two",), self_load=1, http=False)
        other = self.start(harness.NativeServer, models=("half_plus_two",), self_load=1, http=False)
        for process in (server, other):
            harness.wait_target(self.daemon, process.pid)
        self.assertEqual(harness.ctl(self.daemon, "stop").status, NOTHING)
        first, second = self.begin(1, server.pid, "60s"), self.begin(2, other.pid, "60s")

        def running():
            captures = harness.ctl(self.daemon, "status", "--json").json["captures"]
            return [c for c in captures if c["records"] > 100]
        captures = harness.wait_until(lambda: len(running()) == 2 and running(), 10, "both run")
        self.assertEqual(sorted(p for c in captures for p in c["pids"]), sorted([server.pid, other.pid]))
        self.assertEqual({(c["uid"], c["duration_ns"], c["dropped"]) for c in captures}, {(0, 60 * 10**9, 0)})
        command = harness.ctl(self.daemon, "stop", "--pid", other.pid)
        self.assertEqual((command.status, command.stdout), (OK, "1 capture stopped\n"))
        result = self.finish(second, LOSS)
        self.assertTrue(any("closed on request" in w for w in result["warnings"]))
        self.assertGreater(result["ops"], 0)
        self.assertIsNone(first.poll())
        self.assertEqual(harness.ctl(self.daemon, "stop").stdout, "1 capture stopped\n")
        self.finish(first, LOSS)

    def test_a_user_cannot_stop_captures_of_another(self):
        os.chmod(self.daemon.socket, 0o666)
        server = self.start(harness.NativeServer, models=("half_plus_two",), self_load=1, http=False)
        harness.wait_target(self.daemon, server.pid)
        running = self.begin(1, server.pid, "2s")
        time.sleep(0.7)
        command = harness.run(harness.OUT / "tfprofctl", "--daemon", f"unix:{self.daemon.socket}", "stop", user=65534)
        self.assertEqual((command.status, command.stdout), (NOTHING, "0 captures stopped\n"))
        self.finish(running)


class XprofServer(TestCase):
    def test_the_xprof_command_s_own_server_captures(self):
        server = self.start(harness.NativeServer, models=("half_plus_two",), self_load=1)
        harness.wait_target(self.daemon, server.pid)
        port, logdir = harness.free_port(), self.directory / "xprof"
        logdir.mkdir()
        self.start(harness.Process, "xprof", [harness.PYTHON.parent / "xprof", logdir, "--port", port])

        def get(path):
            try:
                with OPENER.open(f"http://127.0.0.1:{port}/{path}", timeout=60) as answer:
                    data = answer.read()
                return (gzip.decompress(data) if answer.headers.get("Content-Encoding") == "gzip" else data).decode()
            except OSError:
                return ""
        harness.wait_until(lambda: get("runs") == "[]", 60, "it answers")
        answer = json.loads(get(f"data/plugin/profile/capture_profile?service_addr={self.daemon.address}&is_tpu_name=false&duration=500&num_retry=1"))
        self.assertEqual(answer, {"result": "Capture profile successfully. Please refresh."})
        (run,) = json.loads(get("data/plugin/profile/runs"))
        tools = json.loads(get(f"data/plugin/profile/run_tools?run={run}"))
        self.assertIn("trace_viewer@", tools)
        self.assertIn("framework_op_stats", tools)


class Lifetimes(harness.TestCase):
    """What many starts and many clients leave behind."""

    # Of the sanitizers' daemons every third takes a snapshot, every third captures, and every eighth has many connections.
    CYCLES, SAN_CYCLES = (500, 24) if harness.LONG else (100, 6)
    # So many times so many connections; and what each may leave, in bytes, by the median of what the times left.
    ROUNDS, CONNECTIONS, KEPT_BYTES = 100 if harness.LONG else 10, 1000, 40
    # Each client's user is looked up, and for Monitor every process is.
    PER_PERIOD, MONITORS_PER_PERIOD, PERIOD, MONITORS = 80, 10, "100ms", 0.1
    SAN = harness.BUILD / "san/tfprofd"

    def descriptors(self, daemon):
        """Sockets: files of processes that come and go on this host stay open for a while."""
        links = [path for pid in daemon.pids() for path in glob.glob(f"/proc/{pid}/fd/*") if os.path.lexists(path)]
        return sum(os.readlink(path).startswith("socket:") for path in links)

    def memory(self, daemon):
        """kB that are its own, in memory or swapped: pages of files come and go as the kernel likes."""
        texts = [pathlib.Path(f"/proc/{pid}/status").read_text() for pid in daemon.pids()]
        return sum(int(kb) for text in texts for kb in re.findall(r"^(?:RssAnon|VmSwap):\s+(\d+)", text, re.M))

    def connect(self, daemon, times, per_period, method):
        """Each connection with a call, and its end."""
        call = self.directory / "call"
        call.write_bytes(bytes(5))
        done = harness.run("h2load", "-n", times, "-c", times, "-r", per_period, f"--rate-period={self.PERIOD}", "-d", call, "-H", "content-type: application/grpc",
                           "-H", "te: trailers", f"http://{daemon.address}/{method}")
        self.assertIn(f"requests: {times} total, {times} started, {times} done, {times} succeeded, 0 failed", done.stdout, done.stderr)

    def connect_many(self, daemon, times):
        monitors = int(times * self.MONITORS)
        # One kind after the other: beside each other they leave the allocator's memory in another order each time.
        self.connect(daemon, times - monitors, self.PER_PERIOD, "grpc.health.v1.Health/Check")
        self.connect(daemon, monitors, self.MONITORS_PER_PERIOD, "tensorflow.ProfilerService/Monitor")

    def test_ten_thousand_connections_leave_no_descriptor_and_no_memory(self):
        # A target of another test would have a port here, as long as it lives.
        daemon = self.start(harness.Daemon, "--target-ports", "no")
        self.connect_many(daemon, self.CONNECTIONS)
        descriptors, memory = self.descriptors(daemon), [self.memory(daemon)]
        for _ in range(self.ROUNDS):
            self.connect_many(daemon, self.CONNECTIONS)
            harness.wait_until(lambda: self.descriptors(daemon) <= descriptors, 10, "no descriptor is left")
            memory.append(self.memory(daemon))
        print(f"     memory after each {self.CONNECTIONS} connections: {memory} kB")
        # In the first rounds the allocators' memory settles.
        self.assertLess(harness.slope(memory[self.ROUNDS // 2:]) * 1024, self.KEPT_BYTES * self.CONNECTIONS)

    def test_cycles_of_the_daemon_leave_nothing(self):
        before = harness.bpf_objects()
        state = self.directory / "state"
        for number in range(self.CYCLES):
            daemon = harness.Daemon("--state-dir", state, *(("--recorder", 1) if number % 2 else ()))
            daemon.send(signal.SIGTERM)
            self.assertEqual(daemon.wait(20), 0, daemon.stderr())
            self.assertFalse(daemon.socket.exists())
            daemon.stop()
        self.assertEqual(harness.leftovers(before), [])
        self.assertEqual(sorted(p.name for p in state.iterdir()), ["audit.log", "cache", "lock", "plans"])

    def test_sanitizers_find_nothing_after_captures_snapshots_and_connections(self):
        self.assertTrue(self.SAN.exists(), "make SAN=address,undefined all builds what is tested here")
        server = self.start(harness.NativeServer, models=("half_plus_two",), self_load=1)
        for number in range(self.SAN_CYCLES):
            with unittest.mock.patch.object(harness, "OUT", self.SAN.parent):
                daemon = self.start(harness.Daemon, *(("--recorder", 2, "--recorder-overhead", 100) if number % 3 == 0 else ()))
            harness.wait_target(daemon, server.pid)
            if number % 3 == 0:
                harness.wait_until(lambda: harness.ctl(daemon, "snapshot", "-o", self.directory / "l").status in (OK, LOSS), 10, "a snapshot")
            if number % 3 == 1:
                self.assertEqual(harness.ctl_capture(daemon, [server.pid], self.directory / "l", "--slowest", 3, duration="100ms").status, OK)
            if number % 8 == 2:
                self.connect_many(daemon, 400)
            daemon.send(signal.SIGTERM)
            self.assertEqual(daemon.wait(60), 0, daemon.stderr())
            self.assertNotIn("Sanitizer", daemon.stderr())


class KeptPrograms(TestCase):
    KEPT_S = 4

    def setUp(self):
        harness.TestCase.setUp(self)
        self.before = harness.bpf_objects()
        self.serve_with(harness.KEEP_PROGRAMS, f"{self.KEPT_S}s")
        self.server = self.start(harness.NativeServer, ["half_plus_two"])
        harness.wait_target(self.daemon, self.server.pid)
        harness.read_files(self.daemon, self.server)

    def left(self, kind):
        """The numbers of the daemon's BPF objects of a kind."""
        return {int(re.search(r"'id': (\d+)", entry)[1]) for entry in harness.leftovers(self.before, 0, self.daemon) if entry.startswith(kind)}

    def wait_kept(self, loaded):
        """As many programs as a capture had, without anything attached."""
        harness.wait_until(lambda: len(self.left("prog") - loaded) == len(loaded) and not self.left("link"), 10, "programs are kept")
        self.assertEqual(self.left("prog") & loaded, set(), "programs of a capture were kept, with its records")
        return self.left("prog")

    def capture(self, *arguments, requests=20):
        """The BPF programs that were loaded while it ran. It shows every request that was made meanwhile."""
        running = self.begin(0, self.server.pid, "2s", *arguments)
        harness.wait_until(lambda: self.left("link"), 10, "probes are attached")
        loaded = self.left("prog")
        time.sleep(0.3)
        for _ in range(requests):
            with OPENER.open(f"http://127.0.0.1:{self.server.port}/v1/models/half_plus_two:predict", b'{"instances": [1.0]}') as answer:
                answer.read()
        result = self.finish(running)
        self.assertEqual((result["requests"]["whole"], result["dropped"]), (requests, 0))
        return loaded

    def test_the_next_capture_takes_what_was_kept_and_another_kind_of_capture_replaces_it(self):
        kept = self.wait_kept(self.capture("--level", "2"))
        second = self.capture("--level", "2")
        self.assertEqual(second, kept)
        kept = self.wait_kept(second)
        other = self.capture("--level", "2", "--stacks")
        self.assertEqual(other & kept, set())
        self.wait_kept(other)

    def test_they_are_unloaded_when_no_capture_comes_and_when_the_daemon_ends(self):
        self.wait_kept(self.capture("--level", "1"))
        begun = time.monotonic()
        self.assertEqual(harness.leftovers(self.before, self.KEPT_S + 3, self.daemon), [])
        self.assertGreater(time.monotonic() - begun, self.KEPT_S - 2)
        self.wait_kept(self.capture("--level", "1"))
        self.daemon.send(signal.SIGTERM)
        self.assertEqual(self.daemon.wait(20), 0, self.daemon.stderr())
        self.assertEqual(harness.leftovers(self.before), [])

    def test_a_daemon_that_is_killed_leaves_none(self):
        self.wait_kept(self.capture("--level", "1"))
        for pid in self.daemon.pids():
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(harness.leftovers(self.before), [])


if __name__ == "__main__":
    harness.main()
