#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The flight recorder: what happened is asked for after the fact, by tfprofctl and by xprof's own client. As root."""
import json
import os
import re
import signal
import subprocess
import time

import grpc

import harness
from test_delays import Client, Log, MS, Server, latency, window

OK, INTERNAL, USAGE, DENIED, NO_TARGET, NOTHING, LOSS = range(7)
STALL_MS = 200
XPROF = "from xprof.convert import _pywrap_profiler_plugin as p; import sys; "
# Overhead is not what these tests are about.
FREE = ("--recorder-overhead", 100)


class TestCase(harness.TestCase):
    def serve_with(self, *arguments):
        self.daemon = self.start(harness.Daemon, *arguments)
        return self.daemon

    def snapshot(self, *arguments, status=OK, **how):
        command = harness.ctl(self.daemon, "snapshot", "-o", self.directory / "logdir", "--json", *arguments, **how)
        self.assertEqual(command.status, status, command.stderr)
        return command.json if command.stdout else command.stderr

    def recorder(self):
        command = harness.ctl(self.daemon, "status", "--json")
        self.assertEqual(command.status, OK, command.stderr)
        return command.json["recorder"]


class Snapshots(TestCase):
    def test_a_stall_is_found_with_its_cause_five_seconds_later(self):
        self.serve_with("--recorder", 2, *FREE)
        server = self.start(Server, self.directory, ["half_plus_two"], "--delay-decode", STALL_MS)
        harness.wait_target(self.daemon, server.pid)
        harness.wait_recorded(self.daemon, server.pid)
        # One of twenty is delayed, and so is one of those that warm up.
        client = self.start(Client, self.directory, server, "half_plus_two", clients=1, rate=20)
        time.sleep(1.5)
        log = Log(client.finish())
        stalled = max(log.exchanges, key=latency)
        self.assertGreater(latency(stalled), STALL_MS * MS)
        time.sleep(max(0, 5 - (time.monotonic_ns() - stalled["receive_ns"]) / 1e9))
        result = self.snapshot("--last", "10s", "--slowest", 1, "--requests", self.directory / "requests", status=LOSS)
        self.assertTrue(any("The last 10.000 s were requested" in w for w in result["warnings"]), result["warnings"])
        (request,) = result["slowest"]
        self.assertEqual(log.find(request)["id"], stalled["id"])
        self.assertGreaterEqual(request["latency_ns"], STALL_MS * MS)
        self.assertLess(request["latency_ns"], latency(stalled))
        cause = request["cause"]
        self.assertEqual((cause["phase"], cause["activity"], cause["name"]), ("decode", "blocked", "clock_nanosleep"))
        self.assertEqual(cause["thread"]["name"], "http_worker")
        # All that the client sent since the recorder began is there, once.
        start, end = window(result)
        lines = [json.loads(line) for line in (self.directory / "requests").read_text().splitlines()]
        found = [log.find(r)["id"] for r in lines if log.find(r)]
        self.assertEqual(len(found), len(set(found)))
        self.assertEqual({e["id"] for e in log.exchanges if e["send_ns"] > start and e["receive_ns"] < end} - set(found), set())
        self.assertEqual(result["requests"]["lost"], 0)
        xspace = harness.XSpace(result["file"])
        self.assertTrue(xspace.ops())

    def test_captures_and_snapshots_do_not_disturb_each_other(self):
        self.serve_with("--recorder", 2, *FREE)
        server = self.start(harness.NativeServer, models=("half_plus_two",))
        harness.wait_target(self.daemon, server.pid)
        harness.wait_recorded(self.daemon, server.pid)
        load = self.start(harness.Load, server, clients=2)
        running = subprocess.Popen([harness.OUT / "tfprofctl", "--daemon", f"unix:{self.daemon.socket}", "capture", "--pid", str(server.pid),
                                    "-d", "3s", "--json", "-o", self.directory / "other"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        time.sleep(1.5)
        shots = [self.snapshot("--last", "1s") for _ in range(3)]
        captured = json.loads(running.communicate(timeout=60)[0])
        self.assertEqual(running.returncode, OK)
        load.finish()
        self.assertEqual(captured["requests"]["lost"] + captured["dropped"], 0)
        for shot in shots:
            self.assertEqual((shot["requests"]["lost"], shot["dropped"]), (0, 0))
            self.assertGreater(shot["requests"]["whole"], 20)
            self.assertAlmostEqual(shot["window_ns"], 1e9, delta=1e6)
            known = sum(shot["requests"][key] for key in ("runs_exact", "runs_inferred", "runs_orphaned"))
            self.assertAlmostEqual(known, shot["runs"] + shot["runs_cut"], delta=3)
            self.assertLess(shot["requests"]["runs_orphaned"] + shot["requests"]["runs_inferred"], 6)

    def test_a_process_that_has_ended_is_still_in_a_snapshot(self):
        self.serve_with("--recorder", 1, *FREE)
        server = self.start(harness.NativeServer, models=("half_plus_two",))
        harness.wait_target(self.daemon, server.pid)
        harness.wait_recorded(self.daemon, server.pid)
        load = self.start(harness.Load, server, count=50)
        load.finish()
        server.stop()
        harness.wait_until(lambda: not self.recorder()["attached"], 10, "it has noticed")
        result = self.snapshot(status=LOSS)
        self.assertGreaterEqual(result["requests"]["whole"], 40)
        self.assertTrue(any("every process had ended" in w for w in result["warnings"]), result["warnings"])
        # Another one is recorded instead.
        server = self.start(harness.NativeServer, models=("half_plus_two",))
        harness.wait_recorded(self.daemon, server.pid)
        self.start(harness.Load, server, count=20).finish()
        self.assertGreaterEqual(self.snapshot()["requests"]["whole"], 15)

    def test_it_stays_within_its_budget_and_reports_disabled_kinds(self):
        self.serve_with("--recorder", 3, "--recorder-overhead", 3)
        server = self.start(harness.NativeServer, models=("layered",))
        harness.wait_target(self.daemon, server.pid)
        harness.wait_recorded(self.daemon, server.pid)
        load = self.start(harness.Load, server, model="layered", clients=2)
        harness.wait_until(lambda: self.recorder()["given_up"], 20, "it gives something up")
        time.sleep(1)
        result = self.snapshot("--last", "500ms", status=LOSS)
        load.finish()
        self.assertTrue(any("had been disabled before" in w and "the recorder's budget is 3 %" in w for w in result["warnings"]), result["warnings"])
        self.assertIn("op_sampling", result)

    def test_nothing_is_attached_when_the_daemon_has_ended(self):
        before = harness.bpf_objects()
        self.serve_with("--recorder", 2, *FREE)
        server = self.start(harness.NativeServer, models=("half_plus_two",), self_load=1, http=False)
        harness.wait_target(self.daemon, server.pid)
        harness.wait_recorded(self.daemon, server.pid)
        self.assertNotEqual(harness.bpf_objects(), before)
        self.daemon.send(signal.SIGTERM)
        self.assertEqual(self.daemon.wait(20), 0)
        self.assertEqual(harness.leftovers(before), [])


class Refusals(TestCase):
    def test_without_a_recorder_there_is_no_snapshot(self):
        self.serve_with()
        self.assertIn("no recorder is running: start tfprofd with --recorder 1", self.snapshot(status=NO_TARGET))
        self.assertEqual(list(self.directory.iterdir()), [])

    def test_a_recorder_with_other_users_processes_is_for_root(self):
        self.serve_with("--recorder", 1, *FREE)
        os.chmod(self.daemon.socket, 0o666)
        server = self.start(harness.NativeServer, models=("half_plus_two",), self_load=1, http=False)
        harness.wait_target(self.daemon, server.pid)
        harness.wait_recorded(self.daemon, server.pid)
        command = harness.run(harness.OUT / "tfprofctl", "--daemon", f"unix:{self.daemon.socket}", "snapshot", "-o", "/tmp/none", user=65534)
        self.assertEqual(command.status, DENIED, command.stderr)
        self.assertIn("which belongs to another user: run as root", command.stderr)

    def test_invalid_options_are_refused(self):
        self.serve_with("--recorder", 1)
        for words, message in ((["--requests-count", "5"], "'--requests-count' is not an option of this command"), (["--last", "0"], "the duration must be more than 0"),
                               (["--explain"], "'--explain' is not an option of this command"), (["more"], "unexpected argument")):
            self.assertIn(message, self.snapshot(*words, status=USAGE))


class XprofClient(TestCase):
    """xprof's own client, which starts a recorder, asks it and stops it."""

    def xprof(self, call, *arguments):
        return harness.run(harness.PYTHON, "-c", XPROF + call, *arguments, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"})

    def test_it_starts_a_recorder_takes_snapshots_and_stops_it(self):
        self.serve_with("--recorder-clients", *FREE)
        server = self.start(harness.NativeServer, models=("half_plus_two",), self_load=1)
        harness.wait_target(self.daemon, server.pid)
        address, logdir = self.daemon.address, self.directory / "xprof"
        done = self.xprof("p.start_continuous_profiling(sys.argv[1], {})", address)
        self.assertEqual(done.status, 0, done.stderr)
        harness.wait_recorded(self.daemon, server.pid)
        self.assertEqual((self.recorder()["level"], self.recorder()["configured"]), (1, False))
        time.sleep(1)
        for _ in range(2):
            done = self.xprof("p.get_snapshot(sys.argv[1], sys.argv[2])", address, logdir)
            self.assertEqual(done.status, 0, done.stderr)
        files = harness.xspace_files(logdir)
        self.assertTrue(files)
        self.assertTrue(harness.XSpace(files[-1]).events())
        done = self.xprof("p.start_continuous_profiling(sys.argv[1], {})", address)
        self.assertNotEqual(done.status, 0)
        self.assertIn("a recorder is already running", done.stderr)
        done = self.xprof("p.stop_continuous_profiling(sys.argv[1])", address)
        self.assertEqual(done.status, 0, done.stderr)
        harness.wait_until(lambda: self.recorder() is None, 10, "it has ended")
        done = self.xprof("p.stop_continuous_profiling(sys.argv[1])", address)
        self.assertIn("no recorder is running", done.stderr)

    def test_a_recorder_records_new_processes_after_its_client_has_gone(self):
        self.serve_with("--recorder-clients", *FREE)
        for _ in range(2):
            done = self.xprof("p.start_continuous_profiling(sys.argv[1], {})", self.daemon.address)
            self.assertEqual(done.status, 0, done.stderr)
            # Stopping and starting at once is no contradiction.
            if not _:
                done = self.xprof("p.stop_continuous_profiling(sys.argv[1])", self.daemon.address)
                self.assertEqual(done.status, 0, done.stderr)
        for _ in range(2):
            server = self.start(harness.NativeServer, models=("half_plus_two",))
            harness.wait_target(self.daemon, server.pid)
            # The client's own process maps the runtime, too, and may be among them for a moment.
            harness.wait_until(lambda: self.recorder()["attached"], 10, "it is attached")
            time.sleep(1)
            self.start(harness.Load, server, count=20).finish()
            command = harness.ctl(self.daemon, "snapshot", "-o", self.directory / "logdir", "--json")
            self.assertIn(command.status, (OK, LOSS), command.stderr)
            self.assertGreaterEqual(command.json["requests"]["whole"], 15)
            server.stop()
            harness.wait_until(lambda: not self.recorder()["attached"], 10, "it has noticed")

    def test_a_client_may_not_start_what_outlives_it_unless_root_allows_it(self):
        self.serve_with()
        service = harness.profiler_service()
        channel, future = harness.rpc(self.daemon.address, "StartContinuousProfiling", service.ProfileRequest(), service.ContinuousProfilingResponse)
        with channel, self.assertRaises(grpc.RpcError) as caught:
            future.result(10)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
        self.assertIn("recorder-clients = yes", caught.exception.details())

    def test_the_older_names_of_the_calls_are_served(self):
        self.serve_with("--recorder-clients")
        service = harness.profiler_service()
        for method, request, response in (("ContinuousProfiling", service.ProfileRequest(), service.ContinuousProfilingResponse),
                                          ("StopContinuousProfiling", service.StopContinuousProfilingRequest(),
                                           service.StopContinuousProfilingResponse)):
            channel, future = harness.rpc(self.daemon.address, method, request, response)
            with channel:
                future.result(10)
        channel, future = harness.rpc(self.daemon.address, "GetSnapShot", service.GetSnapshotRequest(), service.ProfileResponse)
        with channel, self.assertRaises(grpc.RpcError) as caught:
            future.result(10)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)

    def test_TensorFlow_s_monitor_shows_rates_and_latencies_at_both_levels(self):
        self.serve_with("--recorder", 1, *FREE)
        server = self.start(harness.NativeServer, models=("half_plus_two",))
        harness.wait_target(self.daemon, server.pid)
        harness.wait_recorded(self.daemon, server.pid)
        load = self.start(harness.Load, server, clients=2)
        time.sleep(3)
        done = harness.run(harness.PYTHON, "-c", "import sys; from tensorflow.python.profiler import profiler_client as c; "
                           "print(*(c.monitor(sys.argv[1], 100, level) for level in (1, 2)), sep='\\0')", f"grpc://{self.daemon.address}",
                           env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"})
        self.assertEqual(done.status, 0, done.stderr)
        texts = done.stdout.split("\0")
        self.assertEqual(len(texts), 2)
        result = load.finish()
        for text in texts:
            rate, p50, p99 = map(float, re.search(rf"(?m)^  {server.pid} .*: ([\d.]+) requests/s, p50 ([\d.]+) ms, p99 ([\d.]+) ms", text).groups())
            self.assertGreater(rate, 10)
            # The server's view, of a part of the time, in which others begin to run.
            self.assertLess(p50, result["p50_ms"] * 5)
            self.assertLess(p50, p99)
            self.assertRegex(text, r"recorder at level 1: the last [\d.]+ s in [\d.]+ of 64.0 MiB, \d+ records, 0 lost, cost [\d.]+ % of 100 %")
        self.assertIn("version 0.", texts[1])


if __name__ == "__main__":
    harness.main()
