# SPDX-License-Identifier: Apache-2.0
"""TensorBoard's capture dialog, and what other clients of tensorflow.ProfilerService are promised, on both servers."""

import concurrent.futures
import os
import pathlib
import shutil
import signal
import socket
import sys
import tempfile
import time

import grpc

import harness
import relay
import test_lifecycle

WINDOW_MS = 1000
# Of windows that are to open at the same time; and how often that is tried.
APART_MS, TIMES_AGAIN = 50, 3
LAYERED_OPS = {f"layer_{i}/{name}:{kind}" for i in (0, 23) for name, kind in (
    ("matmul", "MatMul"), ("matmul/ReadVariableOp", "ReadVariableOp"), ("scale", "Mul"), ("bias_add", "BiasAdd"),
    ("relu", "Relu"), ("residual", "AddV2"))} | {"softmax:Softmax"}
HALF_PLUS_TWO_OPS = {"Mul:Mul", "Add:AddV2", "Mul/ReadVariableOp:ReadVariableOp", "Add/ReadVariableOp:ReadVariableOp"}
# where a model's function ends up in the graph that is run
NATIVE_SCOPE = "StatefulPartitionedCall/StatefulPartitionedCall/"
PYTHON_SCOPE = "StatefulPartitionedCall/"
# in a network that has nothing yet; as root
LOOPBACK_UP = "build/venv/bin/python -c 'import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack(\"16sH22x\", b\"lo\", 1))'"
ATTACH_MS = 15_000  # at most, before a window begins: a symbol table of 1.1 GB is read at the first capture


def expected_ops(scope):
    return {scope + name for name in LAYERED_OPS | HALF_PLUS_TWO_OPS}


def window(xspace):
    """(start, stop) in Unix nanoseconds."""
    stats = xspace.plane_stats["Task Environment"]
    return stats["profile_start_time"], stats["profile_stop_time"]


def about(warnings, pids):
    """The warnings but those about processes of others, which the port for everything captures, too."""
    return [w for w in warnings if not w.startswith("Process ") or any(w.startswith(f"Process {p} ") or
                                                                      w.startswith(f"Process {p}:") for p in pids)]


class Environment(harness.TestCase):
    """Servers under load and a daemon, shared by the tests of a class."""

    @classmethod
    def address_of(cls, server):
        return harness.wait_target(cls.daemon, server.pid)["address"]

    def call(self, address, method="Profile", request=None, response="ProfileResponse", **options):
        """A call in progress: its future, whose channel is closed after the test."""
        service = harness.profiler_service()
        channel, future = harness.rpc(address, method, request or harness.profile_request(**options),
                                      getattr(service, response))
        self.addCleanup(channel.close)
        return future

    def wait_window(self, address, count=1):
        """Returns when so many windows are open."""
        service = harness.profiler_service()

        def opened():
            text = self.call(address, "Monitor", service.MonitorRequest(), "MonitorResponse").result(10).data
            running = [float(line.split("running for ")[1].split()[0]) for line in text.splitlines()
                       if "capture running for" in line]
            return sum(seconds > 0 for seconds in running) >= count
        harness.wait_until(opened, ATTACH_MS / 1000, f"{count} windows open")


class Dialog(Environment):
    @classmethod
    def setUpClass(cls):
        cls.native = cls.start_shared(harness.NativeServer)
        cls.python = cls.start_shared(harness.GrpcServer)
        cls.loads = [cls.start_shared(harness.Load, server, model) for server in (cls.native, cls.python)
                     for model in ("half_plus_two", "layered")]
        # Four clients and two servers leave little to TensorBoard: they pause but for the captures.
        cls.pause_loads(signal.SIGSTOP)
        cls.addClassCleanup(cls.pause_loads, signal.SIGCONT)
        cls.logdir = pathlib.Path(tempfile.mkdtemp(prefix="tfprofd-e2e-"))
        cls.addClassCleanup(shutil.rmtree, cls.logdir, ignore_errors=True)
        cls.board = cls.start_shared(harness.TensorBoard, cls.logdir)
        cls.daemon = cls.start_shared(harness.Daemon)
        cls.native_address, cls.python_address = cls.address_of(cls.native), cls.address_of(cls.python)

    @classmethod
    def pause_loads(cls, how):
        for load in cls.loads:
            load.send(how)

    def capture_and_look(self, address, scopes, window_ms=WINDOW_MS):
        """Captures as the dialog does, and opens the pages; returns TensorBoard, the run and the XSpace."""
        board, known = self.board, set(self.board.runs())
        before = time.time_ns()
        self.pause_loads(signal.SIGCONT)
        status, message = board.capture(address, window_ms)
        self.pause_loads(signal.SIGSTOP)
        self.assertEqual((status, message), (200, "Capture profile successfully. Please refresh."))
        runs = sorted(set(board.runs()) - known)
        self.assertEqual(len(runs), 1)
        files = [f for f in harness.xspace_files(self.logdir) if f.parent.name not in known]
        self.assertEqual([f.parent.name for f in files], runs)
        xspace = harness.XSpace(files[0])
        self.assertEqual(about(xspace.warnings, (self.native.pid, self.python.pid)), [])
        self.assertEqual(xspace.errors, [])
        start, stop = window(xspace)
        self.assertGreater(start, before)
        self.assertAlmostEqual((stop - start) / 1e6, window_ms, delta=100)
        for tool in ("overview_page", "trace_viewer@", "framework_op_stats"):
            self.assertIn(tool, board.tools(runs[0]))
        ops = set().union(*(expected_ops(scope) for scope in scopes))
        self.assertEqual(ops - set(xspace.ops()), set())
        # The trace viewer shows an op by its type, as it does those of TensorFlow's own profiler.
        self.assertEqual({op.rpartition(":")[2] for op in ops} - {e["name"] for e in board.trace(runs[0])}, set())
        self.assertEqual(ops - {f"{row['operation']}:{row['type']}" for row in board.op_stats(runs[0])}, set())
        return board, runs[0], xspace

    def overview_latency(self, board, run):
        """{percentile: total latency in ms} of the overview page."""
        table = next(t for t in board.page(run, "overview_page") if t["cols"] and t["cols"][0]["id"] == "percentile")
        return {row["c"][0]["v"]: row["c"][-1]["v"] for row in table["rows"]}

    def test_dialog_on_the_native_servers_own_port_shows_its_ops_and_latencies(self):
        board, run, xspace = self.capture_and_look(self.native_address, [NATIVE_SCOPE])
        rows = self.overview_latency(board, run)
        self.assertEqual(set(rows), {"Avg", "50.0%", "75.0%", "90.0%", "99.0%", "99.9%"})
        self.assertGreater(rows["50.0%"], 0)
        self.assertLessEqual(rows["50.0%"], rows["99.9%"])
        runs = xspace.events("SessionRun")
        longest = max(e.duration_ps for e in runs) / 1e9
        self.assertGreater(len(runs), 20)
        self.assertLess(rows["50.0%"], longest + 1)
        # Nothing of the other server is in it.
        self.assertFalse(any(name.startswith(PYTHON_SCOPE + "layer_") for name in xspace.ops()))

    def test_dialog_on_the_python_servers_own_port_shows_its_ops(self):
        _, _, xspace = self.capture_and_look(self.python_address, [PYTHON_SCOPE])
        self.assertGreater(len(xspace.events("FunctionRun")), 20)
        self.assertFalse(any(name.startswith(NATIVE_SCOPE + "layer_") for name in xspace.ops()))

    def test_dialog_on_the_port_for_everything_shows_both_servers(self):
        # Short, as it captures whatever else runs on this host.
        self.capture_and_look(self.daemon.address, [NATIVE_SCOPE, PYTHON_SCOPE], window_ms=400)

    def test_dialog_reaches_the_abstract_socket_named_after_the_port(self):
        self.capture_and_look(f"unix-abstract:{self.daemon.port}", [NATIVE_SCOPE])

    def test_daemons_of_two_hosts_are_captured_in_one_click_and_begin_at_the_same_time(self):
        # A network of its own, and a name of its own, which is what pages count hosts by.
        host = self.start(harness.Process, "host", ["unshare", "--net", "--uts", "sh", "-c",
                                                    'hostname elsewhere && ' + LOOPBACK_UP + ' && echo ready && exec sleep infinity'])
        host.wait_ready(lambda: host.line("ready"))
        other = self.start(harness.Daemon, prefix=["nsenter", f"--target={host.pid}", "--net", "--uts"])
        address = harness.wait_target(other, self.python.pid)["address"]
        port = int(address.rpartition(":")[2])
        with self.assertRaises(OSError):
            socket.create_connection(("127.0.0.1", port), 5).close()
        # What ssh -L does for the user: connections to a port of this host are made in the other's network.
        with socket.create_server(("127.0.0.1", port)) as here:
            self.start(harness.Process, "forwarder", ["nsenter", f"--target={host.pid}", "--net", sys.executable, relay.__file__, str(here.fileno()), port],
                       pass_fds=[here.fileno()])
        run, hosts = self.capture_both(self.native_address, address)
        self.assertEqual(set(self.board.hosts(run)), set(hosts))
        shown = {e["args"]["name"] for e in self.board.trace(run) if e.get("name") == "process_name"}
        for host in hosts:
            self.assertTrue(any(host in name for name in shown), shown)
        self.assertIn("2", [t["p"].get("host_count") for t in self.board.page(run, "overview_page") if t.get("p")])

    def test_the_own_addresses_of_two_processes_give_a_file_of_each_in_one_click(self):
        run, hosts = self.capture_both(self.native_address, self.python_address)
        for host, scope in zip(hosts, (NATIVE_SCOPE, PYTHON_SCOPE)):
            tables = self.board.get_json("data", run=run, tag="trace_viewer@", hosts=host, host=host)["traceEvents"]
            self.assertTrue(any(host in e["args"]["name"] for e in tables if e.get("name") == "process_name"), scope)

    def capture_at_once(self, addresses):
        """(The run, its hosts in the order of the addresses, what was captured of each.)"""
        known = set(self.board.runs())
        self.pause_loads(signal.SIGCONT)
        status, message = self.board.capture(",".join(addresses), WINDOW_MS)
        self.pause_loads(signal.SIGSTOP)
        self.assertEqual((status, message), (200, "Capture profile successfully. Please refresh."))
        run, = set(self.board.runs()) - known
        files = {f.name.removesuffix(".xplane.pb"): harness.XSpace(f) for f in harness.xspace_files(self.logdir) if f.parent.name == run}
        hosts = [address.replace(":", "_") for address in addresses]
        self.assertEqual(set(files), set(hosts))
        return run, hosts, [files[host] for host in hosts]

    def capture_both(self, *addresses):
        """Captures the native server at the first address and that in Python at the second: (the run, its hosts in this order)."""
        # A first capture reads more than a busy disk may give in the three seconds that TensorBoard leaves.
        for address in addresses:
            harness.profile(address, duration_ms=50)
        # Again if the machine stood still when one of the windows was to open.
        for _ in range(TIMES_AGAIN):
            run, hosts, (native, python) = self.capture_at_once(addresses)
            apart_ms = abs(window(native)[0] - window(python)[0]) / 1e6
            if apart_ms < APART_MS:
                break
        self.assertLess(apart_ms, APART_MS, (native.warnings, python.warnings))
        self.assertEqual(expected_ops(NATIVE_SCOPE) - set(native.ops()), set())
        self.assertEqual(expected_ops(PYTHON_SCOPE) - set(python.ops()), set())
        # Nothing of the one is in the other's.
        self.assertEqual([name for name in native.ops() if name.startswith(PYTHON_SCOPE + "layer_")], [])
        self.assertEqual([name for name in python.ops() if name.startswith(NATIVE_SCOPE + "layer_")], [])
        return run, hosts

    def test_a_list_of_workers_is_refused_with_an_alternative(self):
        known = set(self.board.runs())
        status, message = self.board.capture(self.native_address, retries=0, workers=self.native_address)
        print(f"     {status} {message}")
        self.assertEqual(status, 500)
        self.assertIn("leave the list of workers empty", message + self.board.stderr())
        self.assertEqual(set(self.board.runs()), known)

    def test_dialog_shows_what_is_wrong_when_nothing_can_be_profiled(self):
        """An error in the trace reaches the user; a status would be one generic sentence."""
        # As a user who owns no process.
        relay = test_lifecycle.UserRelay(("127.0.0.1", self.daemon.port), test_lifecycle.STRANGER)
        self.addCleanup(relay.close)
        xspace = harness.response_xspace(harness.profile(f"127.0.0.1:{relay.port}", duration_ms=WINDOW_MS))
        self.assertEqual(len(xspace.errors), 1, xspace.errors)
        self.assertIn("no process with a known runtime", xspace.errors[0])


class Protocol(Environment):
    @classmethod
    def setUpClass(cls):
        cls.small = cls.start_shared(harness.NativeServer, ["half_plus_two"])
        cls.layered = cls.start_shared(harness.NativeServer, ["layered"])
        cls.start_shared(harness.Load, cls.small, "half_plus_two")
        cls.start_shared(harness.Load, cls.layered, "layered")
        cls.daemon = cls.start_shared(harness.Daemon)
        cls.small_address, cls.layered_address = cls.address_of(cls.small), cls.address_of(cls.layered)
        # Attaching takes a moment only when the symbols were read once.
        harness.profile(cls.small_address, duration_ms=1)

    def test_answer_is_tool_data_unless_xspace_is_requested(self):
        tool = harness.profile(self.small_address, duration_ms=200, emit_xspace=False)
        self.assertEqual([t.name for t in tool.tool_data], ["xplane.pb"])
        self.assertEqual(tool.xspace, b"")
        self.assertFalse(tool.empty_trace)
        self.assertTrue(harness.response_xspace(tool).ops())
        field = harness.profile(self.small_address, duration_ms=200, emit_xspace=True)
        self.assertEqual(len(field.tool_data), 0)
        self.assertTrue(harness.XSpace(field.xspace).ops())

    def test_window_begins_at_the_requested_time_and_lasts_as_long(self):
        at = time.time_ns() + 2_000_000_000
        xspace = harness.response_xspace(
            harness.profile(self.small_address, duration_ms=500, start_timestamp_ns=at))
        start, stop = window(xspace)
        self.assertAlmostEqual((start - at) / 1e6, 0, delta=50)
        self.assertAlmostEqual((stop - start) / 1e6, 500, delta=50)
        events = xspace.events()
        self.assertLessEqual(max(e.start_ps + e.duration_ps for e in events) / 1e9, 501)

    def test_window_that_begins_late_is_reported(self):
        at = time.time_ns() + 500_000_000
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            call = pool.submit(harness.profile, self.small_address, duration_ms=300, start_timestamp_ns=at)
            time.sleep(0.3)
            os.kill(self.daemon.front(), signal.SIGSTOP)
            time.sleep(1)
            os.kill(self.daemon.front(), signal.SIGCONT)
            xspace = harness.response_xspace(call.result(30))
        late = (window(xspace)[0] - at) / 1e9
        self.assertGreater(late, 0.5)
        self.assertIn(f"The window began {late:.3f} s later than requested.", xspace.warnings)

    def test_level_0_is_an_empty_trace_and_level_1_has_runs_but_no_ops(self):
        self.assertTrue(harness.profile(self.small_address, duration_ms=200, level=0).empty_trace)
        xspace = harness.response_xspace(harness.profile(self.small_address, duration_ms=500, level=1))
        self.assertTrue(xspace.events("SessionRun"))
        self.assertEqual(xspace.ops(), {})

    def test_terminate_ends_the_windows_of_its_session_with_a_partial_result(self):
        service = harness.profiler_service()
        mine = self.call(self.small_address, duration_ms=60_000, session_id="mine")
        other = self.call(self.small_address, duration_ms=2_000, session_id="other")
        self.wait_window(self.small_address, 2)
        before = time.monotonic()
        self.call(self.small_address, "Terminate", service.TerminateRequest(session_id="mine"),
                  "TerminateResponse").result(5)
        xspace = harness.response_xspace(mine.result(10))
        self.assertLess(time.monotonic() - before, 5)
        self.assertTrue(xspace.ops())
        self.assertTrue(any("closed on request" in w for w in xspace.warnings), xspace.warnings)
        start, stop = window(harness.response_xspace(other.result(20)))
        self.assertAlmostEqual((stop - start) / 1e6, 2000, delta=100)

    def test_monitor_reports_targets_and_captures_as_text(self):
        service = harness.profiler_service()
        future = self.call(self.small_address, duration_ms=2_000)
        self.wait_window(self.small_address)
        text = self.call(self.daemon.address, "Monitor", service.MonitorRequest(duration_ms=1),
                         "MonitorResponse").result(5).data
        self.assertRegex(text, rf"(?m)^  {self.small.pid} native_server, TensorFlow, .*{self.small_address}(: .* requests/s, p50 .* ms, p99 .* ms)?$")
        self.assertRegex(text, rf"(?m)^  {self.layered.pid} .*{self.layered_address}$")
        self.assertRegex(text, r"(?m)^  capture running for [\d.]+ s: \d+ records, 0 lost, cost [\d.]+ %$")
        future.result(20)

    def test_other_calls_are_unimplemented(self):
        service = harness.profiler_service()
        for method in ("StartContinuousProfilings", "NoSuchCall"):
            with self.assertRaises(grpc.RpcError) as caught:
                self.call(self.daemon.address, method, service.MonitorRequest(), "MonitorResponse").result(5)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
        channel, future = harness.rpc(self.daemon.address, "Profile", service.MonitorRequest(), service.MonitorResponse,
                                      service="tensorflow.NoSuchService")
        with channel, self.assertRaises(grpc.RpcError) as caught:
            future.result(5)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)

    def test_bad_durations_are_refused_with_a_reason(self):
        for duration_ms in (0, 3_600_000):
            with self.assertRaises(grpc.RpcError) as caught:
                harness.profile(self.small_address, duration_ms=duration_ms)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn("--max-duration", caught.exception.details())

    def check_gone(self, before):
        """Nothing is attached, and nothing runs, a moment after the clients went away."""
        self.assertEqual(harness.leftovers(before, daemon=self.daemon), [])
        service = harness.profiler_service()
        text = self.call(self.daemon.address, "Monitor", service.MonitorRequest(), "MonitorResponse").result(5).data
        self.assertNotIn("capture running", text)

    def test_cancelling_a_call_ends_its_capture_and_detaches_the_probes(self):
        before = harness.bpf_objects()
        future = self.call(self.small_address, duration_ms=60_000)
        self.wait_window(self.small_address)
        self.assertNotEqual(harness.leftovers(before, 0, self.daemon), [])
        future.cancel()
        self.check_gone(before)

    def test_a_deadline_that_passes_ends_its_capture_and_detaches_the_probes(self):
        before = harness.bpf_objects()
        service = harness.profiler_service()
        channel = grpc.insecure_channel(self.small_address, [("grpc.use_local_subchannel_pool", 1)])
        call = channel.unary_unary("/tensorflow.ProfilerService/Profile",
                                   request_serializer=lambda m: m.SerializeToString(),
                                   response_deserializer=service.ProfileResponse.FromString)
        with channel, self.assertRaises(grpc.RpcError) as caught:
            call(harness.profile_request(duration_ms=60_000), timeout=2)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.check_gone(before)

    def test_captures_of_one_and_of_several_targets_run_at_once_each_with_its_window(self):
        before = harness.bpf_objects()
        wanted = [(self.small_address, 300), (self.small_address, 900), (self.layered_address, 600), (self.daemon.address, 600)]
        futures = [self.call(address, duration_ms=duration, session_id=f"at once {i}")
                   for i, (address, duration) in enumerate(wanted)]
        ops = {f"{NATIVE_SCOPE}Mul:Mul": (self.small_address, self.daemon.address),
               f"{NATIVE_SCOPE}softmax:Softmax": (self.layered_address, self.daemon.address)}
        windows = []
        for (address, duration), future in zip(wanted, futures):
            xspace = harness.response_xspace(future.result(60))
            self.assertEqual(about(xspace.warnings, (self.small.pid, self.layered.pid)), [])
            windows.append(window(xspace))
            self.assertAlmostEqual((windows[-1][1] - windows[-1][0]) / 1e6, duration, delta=100)
            for op, addresses in ops.items():
                self.assertEqual(op in xspace.ops(), address in addresses, (address, op))
        self.assertLess(windows[3][0], windows[1][1], "they were one after another")
        self.assertEqual(harness.leftovers(before, daemon=self.daemon), [])

    def test_two_captures_of_one_target_see_the_same_runs_where_they_overlap(self):
        futures = [self.call(self.small_address, duration_ms=2000, session_id=f"overlap {i}") for i in range(2)]
        found = [harness.response_xspace(future.result(60)) for future in futures]
        first = max(window(xspace)[0] for xspace in found) + 100_000_000
        last = min(window(xspace)[1] for xspace in found) - 100_000_000
        self.assertGreater(last - first, 500_000_000)
        # Microseconds between the two clocks decide on which side of an edge a run lies.
        runs = [{e.stats["id"] for e in xspace.events("SessionRun")
                 if first < window(xspace)[0] + e.start_ps // 1000 < last} for xspace in found]
        self.assertGreater(len(runs[0]), 10)
        self.assertLessEqual(len(runs[0] ^ runs[1]), 2, "more than one run at either edge")


if __name__ == "__main__":
    harness.main()
