#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the daemon writes down: its log, which no name can forge, and its audit log, a line per decision. As root."""
import contextlib
import http.client
import os
import pathlib
import shutil
import socket
import subprocess
import sys

import grpc

import harness
import test_lifecycle
from test_listeners import Authority

OK, INTERNAL, USAGE, DENIED = range(4)
OTHER = 65533
# Clears the screen, is not UTF-8, ends a quoted value and begins a line of its own. Its first 15 bytes are the name of the process.
EVIL = b"x\x1b[2J\xff\"= \r\n<0>"


class TestCase(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.directory.chmod(0o755)

    def lines(self, daemon, *arguments):
        """The audit log, as tfprofctl reads it."""
        command = harness.run(harness.OUT / "tfprofctl", "audit", *arguments, "--json", daemon.state)
        self.assertEqual(command.status, OK, command.stderr)
        return command.json["lines"]

    def wait_lines(self, daemon, what, count=1):
        """Those that have these values, once there are so many."""
        def found():
            matching = [line for line in self.lines(daemon) if what.items() <= line.items()]
            return matching if len(matching) >= count else None
        return harness.wait_until(found, 5, f"{what} in the audit log")

    def evil_fixture(self, daemon):
        """A target whose program, and so its comm, has that name. Returns (process, path)."""
        path = os.fsencode(self.directory) + b"/" + EVIL
        shutil.copy(harness.BUILD / "fixtures/one_program", path)
        process = subprocess.Popen([path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        harness.wait_target(daemon, process.pid)
        return process, path


class Log(TestCase):
    def test_the_name_of_a_process_can_neither_control_a_terminal_nor_begin_a_line(self):
        daemon = self.start(harness.Daemon)
        process, path = self.evil_fixture(daemon)
        harness.ctl_capture(daemon, [process.pid], self.directory / "logdir", duration="200ms")
        service = harness.profiler_service()
        channel, future = harness.rpc(daemon.address, "Monitor", service.MonitorRequest(monitoring_level=2), service.MonitorResponse)
        with channel:
            answer = future.result(10).data
        self.assertIn(r'x\x1b[2J\xff"= \x0d, TensorFlow', answer)
        self.assertNotRegex(answer, r"[\x00-\x09\x0b-\x1f]")
        process.kill()
        harness.wait_until(lambda: "has ended or is no longer a target" in daemon.stderr(), 5, "its end is logged")
        for name in (daemon.stderr_path, daemon.state / "audit.log"):
            written = pathlib.Path(name).read_bytes()
            self.assertNotRegex(written, rb"[\x00-\x09\x0b-\x1f\x7f\xff]", name)
            for line in written.splitlines():
                self.assertRegex(line, rb"^(tfprofd|time=)", name)
        self.assertIn(rf'found process {process.pid} (x\x1b[2J\xff"= \x0d): ', daemon.stderr())
        # It can be read as it was.
        exes = {line["target_exe"].encode("utf-8", "replace") for line in self.lines(daemon) if line.get("target_pid") == process.pid}
        self.assertEqual(exes, {path.replace(b"\xff", "\ufffd".encode())})
        # As text it is harmless, too.
        command = harness.run(harness.OUT / "tfprofctl", "audit", daemon.state)
        self.assertNotRegex(command.stdout, r"[\x00-\x09\x0b-\x1f]")

    def test_refusals_in_a_loop_do_not_fill_the_log(self):
        daemon = self.start(harness.Daemon)
        server = self.start(harness.Process, "one_program", [harness.BUILD / "fixtures/one_program"])
        harness.wait_target(daemon, server.pid)
        before = len(daemon.stderr())
        relay = test_lifecycle.UserRelay(("127.0.0.1", daemon.port), OTHER)
        self.addCleanup(relay.close)
        sys.path.insert(0, str(harness.BUILD / "gen/python"))
        import control_pb2
        refused = 0
        with grpc.insecure_channel(f"127.0.0.1:{relay.port}", options=[("grpc.enable_http_proxy", 0)]) as channel:
            plan = channel.unary_unary("/tfprofd.Control/Plan", request_serializer=lambda m: m.SerializeToString(),
                                       response_deserializer=control_pb2.PlanReply.FromString)
            for _ in range(300):
                with self.assertRaises(grpc.RpcError) as caught:
                    plan(control_pb2.PlanRequest(pids=[server.pid], level=2), timeout=10)
                refused += caught.exception.code() == grpc.StatusCode.PERMISSION_DENIED
        self.assertEqual(refused, 300)
        # Clients that are gone before they are known, too.
        for _ in range(300):
            with contextlib.suppress(OSError), socket.socket() as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                s.connect(("127.0.0.1", daemon.port))
        self.wait_lines(daemon, {"verdict": "deny", "action": "plan", "client_uid": OTHER, "target_pid": server.pid, "reported_by": "front"})
        self.assertLess(len(daemon.stderr()) - before, 10_000)
        self.assertLess(len(self.lines(daemon)), 30)
        daemon.stop()
        self.assertIn(f'verdict=deny action=plan client_uid={OTHER} reason="295 more refused"', daemon.stderr())


class Audit(TestCase):
    def test_each_decision_about_a_capture_has_its_line(self):
        daemon = self.start(harness.Daemon)
        server = self.start(harness.NativeServer, models=("half_plus_two",), self_load=1, http=False)
        harness.wait_target(daemon, server.pid)
        result = harness.ctl_capture(daemon, [server.pid], self.directory / "logdir", "--record", self.directory / "r.tfp", duration="500ms")
        self.assertIn(result.status, (OK, 6), result.stderr)
        [stop] = self.wait_lines(daemon, {"verdict": "stop", "action": "capture"})
        cgroup = next((line[3:] for line in pathlib.Path(f"/proc/{server.pid}/cgroup").read_text().splitlines() if line.startswith("0::")), None)
        who = {"client_uid": 0, "client_exe": str(harness.OUT / "tfprofctl")}
        whom = {"target_pid": server.pid, "target_uid": 0, "target_exe": os.readlink(f"/proc/{server.pid}/exe"),
                **({"target_cgroup": cgroup} if cgroup else {})}
        found = [line for line in self.lines(daemon) if line["action"] == "capture"]
        self.assertEqual([line["verdict"] for line in found], ["allow", "start", "stop"])
        for line in found:
            self.assertLessEqual({**who, **whom}.items(), line.items())
            self.assertNotIn("reported_by", line)
            self.assertGreater(line["client_pid"], 1)
            self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
        # The numbers are those that the client received.
        self.assertEqual(stop["events"], result.json["records"])
        self.assertEqual(stop["lost"], result.json["dropped"])
        self.assertGreater(stop["bytes"], 16 * stop["events"])
        self.assertGreaterEqual(stop["duration_ms"], 500)
        # The log has the same, and nothing else about the capture.
        logged = [line for line in daemon.stderr().splitlines() if "capture" in line]
        self.assertEqual(len(logged), 3, logged)
        self.assertTrue(all(line.startswith("tfprofd broker: audit: verdict=") for line in logged), logged)
        text = harness.run(harness.OUT / "tfprofctl", "audit", "--pid", server.pid, "--last", "1h", daemon.state).stdout.splitlines()
        self.assertEqual(len(text), 3)
        self.assertRegex(text[-1], rf"^\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d  stop   capture    user 0, \S+ \(\d+\); process {server.pid} of user 0, \S+; .* events, ")
        self.assertEqual(self.lines(daemon, "--pid", 1), [])

    def test_refusals_of_every_kind_have_their_line(self):
        daemon = self.start(harness.Daemon)
        server = self.start(harness.NativeServer, models=("half_plus_two",), self_load=1, http=False)
        harness.wait_target(daemon, server.pid)
        relay = test_lifecycle.UserRelay(("127.0.0.1", daemon.port), OTHER)
        self.addCleanup(relay.close)
        where = ["--daemon", f"127.0.0.1:{relay.port}"]
        running = subprocess.Popen([harness.OUT / "tfprofctl", "--daemon", f"unix:{daemon.socket}", "capture", "--pid", str(server.pid), "-d", "4s",
                                    "-o", self.directory / "running"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(running.wait)
        self.addCleanup(running.terminate)
        self.wait_lines(daemon, {"verdict": "start"})
        for command, status in ((["capture", "--pid", server.pid, "-o", self.directory], DENIED), (["plan", "--pid", server.pid], DENIED),
                                (["targets"], OK), (["status"], OK), (["stop", "--pid", server.pid], 5)):
            done = harness.run(harness.OUT / "tfprofctl", *where, *command)
            self.assertEqual(done.status, status, done.stderr)
        # At the port of the process itself.
        port = int(harness.ctl_targets(daemon)[server.pid]["address"].partition(":")[2])
        own = test_lifecycle.UserRelay(("127.0.0.1", port), OTHER)
        self.addCleanup(own.close)
        service = harness.profiler_service()
        channel, future = harness.rpc(f"127.0.0.1:{own.port}", "Monitor", service.MonitorRequest(), service.MonitorResponse)
        with channel:
            self.assertIn("0 processes to profile", future.result(10).data)
        for verdict, action, target in (("deny", "monitor", server.pid), ("deny", "capture", server.pid), ("deny", "plan", server.pid), ("allow", "targets", None),
                                        ("allow", "status", None), ("deny", "stop", server.pid)):
            [line] = self.wait_lines(daemon, {"verdict": verdict, "action": action, "client_uid": OTHER})
            self.assertEqual(line.get("target_pid"), target)
            self.assertEqual(line["reported_by"], "front")
        self.assertIsNone(running.poll(), "another user's capture goes on")

    def test_each_other_call_has_its_line(self):
        daemon = self.start(harness.Daemon, "--lifecycle")
        server = self.start(harness.Process, "one_program", [harness.BUILD / "fixtures/one_program"])
        harness.wait_target(daemon, server.pid)
        relay = test_lifecycle.UserRelay(("127.0.0.1", daemon.port), OTHER)
        self.addCleanup(relay.close)
        theirs, nobodys, pid = ["--daemon", f"127.0.0.1:{relay.port}"], 2, server.pid
        roots = ["--daemon", f"unix:{daemon.socket}"]
        for user, where, words, line in (
                (0, roots, ["doctor"], ("allow", "doctor", None)),
                (0, roots, ["doctor", "--pid", pid], ("allow", "doctor", pid)),
                (0, roots, ["doctor", "--pid", nobodys], ("fail", "doctor", nobodys)),
                (0, roots, ["lifecycle"], ("allow", "lifecycle", None)),
                (0, roots, ["lifecycle", "--pid", pid], ("allow", "lifecycle", pid)),
                (0, roots, ["lifecycle", "--pid", nobodys], ("fail", "lifecycle", nobodys)),
                (0, roots, ["plan", "--pid", nobodys], ("fail", "plan", nobodys)),
                (0, roots, ["snapshot", "-o", self.directory], ("fail", "snapshot", None)),
                (0, roots, ["stop"], ("fail", "stop", None)),
                (OTHER, theirs, ["doctor", "--pid", pid], ("deny", "doctor", pid)),
                (OTHER, theirs, ["lifecycle", "--pid", pid], ("deny", "lifecycle", pid)),
                (OTHER, theirs, ["lifecycle"], ("allow", "lifecycle", None)),
                (OTHER, theirs, ["capture", "-o", self.directory], ("fail", "capture", None)),
        ):
            before = len(self.lines(daemon))
            harness.run(harness.OUT / "tfprofctl", *where, *words)
            def found():
                lines = [entry for entry in self.lines(daemon)[before:] if (entry["action"], entry.get("client_uid")) == (line[1], user)]
                return [(entry["verdict"], entry["action"], entry.get("target_pid")) for entry in lines]
            self.assertEqual(harness.wait_until(found, 5, f"a line of {words}"), [line], words)

    def test_a_certificate_is_in_the_lines_of_its_client(self):
        authority = Authority(self.directory, "authority")
        certificate, key = authority.sign("server", "/CN=tfprofd")
        mine = authority.sign("client", "/CN=evil\x1b[2J verdict=allow")
        address = f"127.0.0.1:{harness.free_port()}"
        users = self.directory / "users"
        users.write_text("root CN=evil\\1B[2J verdict=allow\n")
        daemon = self.start(harness.Daemon, "--tls-listen", address, "--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", authority.certificate,
                            "--tls-users", users)
        server = self.start(harness.NativeServer, models=("half_plus_two",), self_load=1, http=False)
        harness.wait_target(daemon, server.pid)
        done = harness.run(harness.OUT / "tfprofctl", "--daemon", address, "--tls", "--ca", authority.certificate, "--cert", mine[0], "--key", mine[1],
                           "capture", "--pid", server.pid, "-d", "200ms", "-o", self.directory / "logdir")
        self.assertIn(done.status, (OK, 6), done.stderr)
        self.wait_lines(daemon, {"verdict": "stop"})
        found = [line for line in self.lines(daemon) if line["action"] == "capture"]
        self.assertEqual([line["verdict"] for line in found], ["allow", "start", "stop"])
        for line in found:
            self.assertIn("evil", line["certificate"])
        self.assertNotIn("\x1b", daemon.stderr())

    def test_only_root_reads_the_log_and_a_wrong_directory_is_named(self):
        daemon = self.start(harness.Daemon)
        os.chmod(daemon.state, 0o755)
        done = harness.run(harness.OUT / "tfprofctl", "audit", daemon.state, user=OTHER)
        self.assertEqual((done.status, done.stdout), (DENIED, ""))
        self.assertIn("run as root", done.stderr)
        done = harness.run(harness.OUT / "tfprofctl", "audit", self.directory)
        self.assertEqual(done.status, INTERNAL)
        self.assertIn(f"there is no audit log in {self.directory}: name the state directory of the daemon (tfprofd --state-dir)", done.stderr)


class Host(TestCase):
    def get(self, port, host, path="/metrics"):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        with contextlib.closing(connection):
            connection.putrequest("GET", path, skip_host=True)
            if host:
                connection.putheader("Host", host)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def test_metrics_are_not_for_a_page_that_a_browser_was_led_from(self):
        port = harness.free_port()
        self.start(harness.Daemon, "--metrics-listen", f"127.0.0.1:{port}", "--metrics-hosts", "node-7,metrics.example")
        for host in (f"localhost:{port}", f"127.0.0.1:{port}", "127.0.0.1", "[::1]:80", "Metrics.Example:443", "node-7"):
            self.assertEqual(self.get(port, host)[0], 200, host)
        for host in ("attacker.example", f"attacker.example:{port}", f"127.0.0.1.attacker.example:{port}", f"10.0.0.1:{port}"):
            for path in ("/metrics", "/healthz", "/"):
                status, text = self.get(port, host, path)
                self.assertEqual(status, 421, host)
                self.assertIn("add the name to metrics-hosts", text)
                self.assertNotIn("tfprofd_", text)

    def test_a_browser_gets_no_answer_from_the_ports_for_captures(self):
        # A browser has HTTP/2 without TLS for nobody, so a name of another page reaches no call.
        daemon = self.start(harness.Daemon)
        for request in (b"GET / HTTP/1.1\r\nHost: attacker.example\r\n\r\n",
                        b"POST /tfprofd.Control/Status HTTP/1.1\r\nHost: attacker.example\r\nContent-Length: 24\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", daemon.port), 10) as s:
                s.sendall(request)
                received = b""
                with contextlib.suppress(ConnectionResetError):
                    while data := s.recv(4096):
                        received += data
                self.assertNotIn(b"HTTP/1", received)
                # At most SETTINGS and GOAWAY.
                self.assertLess(len(received), 200)


if __name__ == "__main__":
    harness.main()
