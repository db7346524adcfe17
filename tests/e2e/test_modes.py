# SPDX-License-Identifier: Apache-2.0
"""What is rare: a kernel without multi links, a runtime inside a program of any name, too many captures, far starts."""

import shutil
import signal
import time

import harness
import test_lifecycle

OWNER = 4713    # of nothing else on this host


def op_names(xspace):
    return set(xspace.ops())


class Fixture(harness.Process):
    """The throwing fixture, as one program that holds everything."""

    def __init__(self, directory=harness.BUILD / "fixtures", prefix=()):
        super().__init__("one_program", [*prefix, directory / "one_program"])


class Modes(harness.TestCase):
    def later(self, address, **request):
        service = harness.profiler_service()
        channel, future = harness.rpc(address, "Profile", harness.profile_request(**request), service.ProfileResponse)
        self.addCleanup(channel.close)
        return future

    def test_perf_event_uprobes_capture_the_same_and_leave_nothing(self):
        before = harness.bpf_objects()
        server = self.start(harness.NativeServer, models=("layered",), self_load=1, http=False)
        daemon = self.start(harness.Daemon, "--probe-links", "perf-event")
        address = harness.wait_target(daemon, server.pid)["address"]
        xspace = harness.response_xspace(harness.profile(address, duration_ms=500, level=3))
        self.assertEqual(xspace.errors + xspace.warnings, [])
        daemon.stop()
        daemon = self.start(harness.Daemon)
        address = harness.wait_target(daemon, server.pid)["address"]
        expected = harness.response_xspace(harness.profile(address, duration_ms=500, level=3))
        self.assertIn("MatMul", {name.rsplit(":", 1)[-1] for name in op_names(expected)})
        self.assertEqual(op_names(xspace), op_names(expected))
        # Of the last two one probe is where a function returns.
        for name in ("SessionRun", "ExecutorState::Process", "MemoryAllocation", "MemoryDeallocation"):
            self.assertTrue(xspace.events(name) and expected.events(name), name)
        for found in (xspace, expected):
            runs = len(found.events("SessionRun"))
            self.assertTrue(all(abs(len(times) / runs - round(len(times) / runs)) < 0.1 for times in found.ops().values()))
        self.assertEqual(harness.leftovers(before, timeout=15), [])

    @harness.only_long
    def test_a_capture_has_room_for_256_perf_events_whose_cost_the_plan_reports_and_all_are_detached(self):
        before = harness.bpf_objects()
        daemon = self.start(harness.Daemon, "--probe-links", "perf-event")
        # Those of a user, whom a capture of every process shows no others.
        self.directory.chmod(0o755)
        shutil.copy(harness.BUILD / "fixtures/one_program", self.directory)
        as_user = ["setpriv", "--reuid", OWNER, "--regid", OWNER, "--clear-groups"]
        fixtures = [self.start(Fixture, self.directory, as_user) for _ in range(13)]
        relay = test_lifecycle.UserRelay(("127.0.0.1", daemon.port), OWNER)
        self.addCleanup(relay.close)
        for fixture in fixtures:
            harness.wait_target(daemon, fixture.pid)
        plan = harness.ctl(daemon, "plan", "--pid", fixtures[0].pid, "--json").json
        probes = sum(p["planted"] for p in plan["targets"][0]["probes"])
        self.assertTrue(plan["calibration"]["perf_events"])
        self.assertRegex(harness.ctl(daemon, "plan", "--pid", fixtures[0].pid).stdout,
                         rf"Detaching takes about .* after the reply: .* and the plan has {probes}\.\n")
        begin = time.monotonic()
        command = harness.run(harness.OUT / "tfprofctl", "--daemon", f"127.0.0.1:{relay.port}", "capture", "--duration", "300ms", "-o", self.directory,
                              "--json")
        self.assertLess(time.monotonic() - begin, 10)
        self.assertIn(command.status, (0, 6), command.stderr)
        warnings = harness.XSpace(harness.xspace_files(self.directory)[0]).warnings
        left_out = [w for w in warnings if "is left out: a capture is limited to 256 probes here" in w]
        self.assertEqual(len(left_out), len(fixtures) - 256 // probes, warnings)
        # Who names them all is told.
        command = harness.ctl_capture(daemon, [fixture.pid for fixture in fixtures], self.directory / "named", duration="300ms")
        self.assertEqual(command.status, 1)
        self.assertIn("a capture is limited to 256 probes here: capture fewer processes, or use a lower level", command.stderr)
        # The kernel detaches one after the other: whatever else runs is to have the CPUs meanwhile.
        with harness.paused(*fixtures):
            self.assertEqual(harness.leftovers(before, 60, daemon), [])

    def test_perf_events_leave_operations_out_where_they_are_too_many(self):
        before = harness.bpf_objects()
        daemon = self.start(harness.Daemon, "--probe-links", "perf-event")
        profile = self.directory / "profile"
        onnx = self.start(harness.Process, "onnx", [harness.PYTHON, harness.ROOT / "tests/servers/onnx_runs.py", 4, profile])
        onnx.wait_ready(lambda: onnx.line("ready"))
        harness.wait_target(daemon, onnx.pid)
        command = harness.ctl_capture(daemon, [onnx.pid], self.directory, "--level", 2, duration="1s")
        self.assertEqual(command.status, 6, command.stderr)
        self.assertEqual([(s["kind"], s["refused"], s["at_ns"]) for s in command.json["shed"]], [("ops", True, 0)])
        xspace = harness.XSpace(harness.xspace_files(self.directory)[0])
        [warning] = [w for w in xspace.warnings if w.startswith("Not captured")]
        self.assertRegex(warning, r"^Not captured: ops\. They need \d+ probes, and a capture has room for 256 \(before Linux 6\.6\): use a later kernel, or level 1\.$")
        self.assertGreater(len(xspace.events("model_run")), 50)
        self.assertFalse(xspace.ops())
        plan = harness.ctl(daemon, "plan", "--pid", onnx.pid, "--level", 2, "--json").json["targets"][0]
        self.assertEqual({p["kind"] for p in plan["probes"] if p["planted"]}, {"runs", "contexts of requests"})
        self.assertEqual(plan["not_shown"], [warning])
        # What has room is complete.
        command = harness.ctl_capture(daemon, [onnx.pid], self.directory / "one", "--level", 1, duration="500ms")
        self.assertEqual((command.status, command.json["shed"]), (0, []), command.stderr)
        self.assertEqual(harness.leftovers(before, 60, daemon), [])

    def test_runtime_inside_a_program_of_any_name_is_found_and_captured(self):
        daemon = self.start(harness.Daemon)
        fixture = self.start(Fixture)
        address = harness.wait_target(daemon, fixture.pid)["address"]
        xspace = harness.response_xspace(harness.profile(address, duration_ms=500, level=3))
        self.assertIn("block_7/kernel_63:Softmax", op_names(xspace))

    def test_start_in_the_far_future_is_refused(self):
        import grpc

        server = self.start(harness.NativeServer, models=("half_plus_two",), self_load=1, http=False)
        daemon = self.start(harness.Daemon, "--max-duration", "5")
        address = harness.wait_target(daemon, server.pid)["address"]
        with self.assertRaises(grpc.RpcError) as failed:
            harness.profile(address, duration_ms=100, start_timestamp_ns=time.time_ns() + 60 * 10**9)
        self.assertEqual(failed.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)

    def test_daemon_that_waits_for_a_start_has_no_probe_and_ends_when_told(self):
        before = harness.bpf_objects()
        server = self.start(harness.NativeServer, models=("half_plus_two",), self_load=1, http=False)
        daemon = self.start(harness.Daemon)
        address = harness.wait_target(daemon, server.pid)["address"]
        self.later(address, duration_ms=100, start_timestamp_ns=time.time_ns() + 60 * 10**9)
        time.sleep(1)
        self.assertEqual([o for o in harness.leftovers(before) if o.startswith("link")], [])
        daemon.send(signal.SIGTERM)
        daemon.wait(10)


if __name__ == "__main__":
    harness.main()
