#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Captures of servers without a known runtime, compared with what their clients know: one of Python with threads, and nghttpd. As root."""
import collections
import http.client
import json
import re
import signal
import statistics
import subprocess
import threading
import time

import harness
import test_lifecycle
import test_stacks

# Debian's: its functions have names in stacks.
INTERPRETER = "/usr/bin/python3.11"
SERVER = harness.ROOT / "tests/fixtures/any_server.py"
OK, DENIED, NO_TARGET, NOTHING, LOSS = 0, 3, 4, 5, 6
CLIENTS, REQUESTS, MISSING_EVERY = 3, 60, 5
# The client's latency less ours: the median, and what a clock of microseconds makes of it.
ERROR_NS, CLOCK_NS = 1_000_000, 2_000
# Of any_server.py.
BUSY_NS = 2_000_000
WARNING = "has no known runtime: no operations are shown."


class Nghttpd(harness.Process):
    """An HTTP/2 server that is not ours."""

    def __init__(self, directory):
        self.port = harness.free_port()
        super().__init__("nghttpd", ["nghttpd", "--no-tls", "-a", "127.0.0.1", "-d", directory, "-n", "2", self.port])
        self.wait_ready(lambda: harness.socket.socket().connect_ex(("127.0.0.1", self.port)) == 0)


class AnyServer(test_lifecycle.Lifecycle):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.daemon = cls.start_shared(harness.Daemon)
        cls.server = cls.start_shared(harness.Server, "any_server", [INTERPRETER, SERVER, test_lifecycle.LIBRARY], (), False, False)

    def setUp(self):
        super().setUp()
        self.listed, self.logdir = self.directory / "requests.ndjson", self.directory / "log"

    def capturing(self, pid, *arguments):
        """A capture whose window is open."""
        process = harness.Process("capture", [harness.OUT / "tfprofctl", "--daemon", f"unix:{self.daemon.socket}", "capture", "--pid", pid,
                                              "-o", self.logdir, "--json", "--requests", self.listed, *arguments])
        self.addCleanup(process.stop)
        self.wait_window(self.daemon)
        return process

    def finish(self, process, expect=OK):
        """Its requests; its result is in self.result."""
        status = process.wait(60)
        self.result = json.loads(process.stdout() or "{}")
        losses = [w for w in self.result.get("warnings", ()) if re.search("missing|lost|arrived late|malformed|have no name", w)]
        if expect == OK and losses:
            self.assertEqual([w for w in losses if not re.match(harness.SKIPPED, w)], [])
            expect = LOSS
        self.assertEqual(status, expect, (self.result, process.stderr()))
        self.assertEqual([w for w in self.result["warnings"] if w.endswith(WARNING)][1:], [])
        self.assertEqual((self.result["ops"], self.result["runs"]), (0, 0))
        return [json.loads(line) for line in self.listed.read_text().splitlines()]

    def get(self, connection, path):
        """The entry of a client's log."""
        send_ns = time.monotonic_ns()
        connection.request("GET", path)
        port = connection.sock.getsockname()[1]
        response = connection.getresponse()
        response.read()
        return {"path": path, "peer_port": port, "status": response.status, "ns": time.monotonic_ns() - send_ns}

    def load(self, log, number):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)
        for i in range(REQUESTS):
            log.append(self.get(connection, f"/{'missing' if i % MISSING_EVERY == 0 else 'found'}/{number}/{i}"))
        connection.close()

    def assert_adds_up(self, requests):
        for request in requests:
            self.assertEqual(sum(request["phases"].values()), request["latency_ns"], request)
            self.assertEqual((request["runs"], request["attribution"]), ([], "none"), request)

    def test_the_requests_of_a_python_server_are_those_of_its_clients(self):
        folded, recording, again = (self.directory / name for name in ("stacks.folded", "a.tfp", "again.ndjson"))
        process = self.capturing(self.server.pid, "--duration", "30s", "--requests-count", CLIENTS * REQUESTS, "--level", "2", "--stacks=999",
                                 "--folded", folded, "--record", recording)
        self.assertNotIn(self.server.pid, harness.ctl_targets(self.daemon))
        log, threads = [], []
        for number in range(CLIENTS):
            threads.append(threading.Thread(target=self.load, args=(log, number)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        requests = self.finish(process)
        self.assertIn(f"Process {self.server.pid} (python3.11) {WARNING}", self.result["warnings"])
        sent = {entry["path"]: entry for entry in log}
        self.assertEqual(len(sent), CLIENTS * REQUESTS)
        self.assertEqual({r["path"]: (r["peer_port"], r["status"], r["method"]) for r in requests},
                         {path: (entry["peer_port"], entry["status"], "GET") for path, entry in sent.items()})
        self.assertEqual(len(requests), len(sent))
        self.assert_adds_up(requests)
        errors = [sent[r["path"]]["ns"] - r["latency_ns"] for r in requests]
        print(f"     {len(requests)} requests, the client's latency less ours: {min(errors) / 1e3:.0f}, {statistics.median(errors) / 1e3:.0f}, "
              f"{max(errors) / 1e3:.0f} us")
        self.assertGreaterEqual(min(errors), 0)
        self.assertLess(statistics.median(errors), ERROR_NS)
        # Each connection has a thread of its own, which is busy that long for each request.
        self.assertEqual([r for r in requests if r["phases"]["handler"] < BUSY_NS or r["phases"]["unknown"]], [])
        # Threads: who read each request, and what they executed.
        self.assertEqual({r["threads"]["read"]["name"] for r in requests}, {"python3.11"})
        samples, busy = 0, 0
        for _, frames, count in test_stacks.folded(folded):
            samples += count
            busy += count * any(re.match(r"keep_busy \(any_server\.py:\d+\)$", frame) for frame in frames)
        print(f"     {samples} samples, {busy} in keep_busy()")
        self.assertGreater(busy, samples / 2)
        # A recording has the same.
        done = harness.run(harness.OUT / "tfprofctl", "replay", recording, "-o", self.directory / "again", "--json", "--requests", again)
        self.assertEqual(done.status, OK, done.stderr)
        self.assertEqual(again.read_text(), self.listed.read_text())
        self.assertNotIn(self.server.pid, harness.ctl_targets(self.daemon))

    def test_the_requests_of_nghttpd_are_those_of_its_client(self):
        (self.directory / "www").mkdir()
        (self.directory / "www/found").write_text("found")
        server, log = self.start(Nghttpd, self.directory / "www"), self.directory / "h2load.log"
        process = self.capturing(server.pid, "--duration", "30s", "--requests-count", REQUESTS, "--level", "1")
        subprocess.run(["h2load", "-n", str(REQUESTS), "-c", "1", "-m", "1", f"--log-file={log}", f"http://127.0.0.1:{server.port}/found",
                        f"http://127.0.0.1:{server.port}/missing"], check=True, capture_output=True)
        requests = sorted(self.finish(process), key=lambda r: r["start_ns"])
        self.assertIn(f"Process {server.pid} (nghttpd) {WARNING}", self.result["warnings"])
        self.assertEqual(collections.Counter(r["path"] for r in requests), {"/found": REQUESTS / 2, "/missing": REQUESTS / 2})
        sent = sorted(line.split() for line in log.read_text().splitlines())
        self.assertEqual([(r["status"], r["path"]) for r in requests], [(int(s), {"200": "/found", "404": "/missing"}[s]) for _, s, _ in sent])
        self.assert_adds_up(requests)
        errors = [int(us) * 1000 - r["latency_ns"] for r, (_, _, us) in zip(requests, sent)]
        print(f"     {len(requests)} requests, the client's latency less ours: {min(errors) / 1e3:.0f}, {statistics.median(errors) / 1e3:.0f}, "
              f"{max(errors) / 1e3:.0f} us")
        self.assertGreaterEqual(min(errors), -CLOCK_NS)
        self.assertLess(statistics.median(errors), ERROR_NS)

    def test_only_who_names_a_process_captures_it(self):
        relay = test_lifecycle.UserRelay(("127.0.0.1", self.daemon.port), test_lifecycle.OTHER)
        self.addCleanup(relay.close)
        for command in ["plan"], ["capture", "-o", self.logdir]:
            done = harness.run(harness.OUT / "tfprofctl", "--daemon", f"127.0.0.1:{relay.port}", *command, "--pid", self.server.pid)
            self.assertEqual(done.status, DENIED, done.stderr)
            self.assertIn(f"you may not profile process {self.server.pid} of user 0", done.stderr)
        target = self.start(test_lifecycle.Fixture)
        harness.wait_target(self.daemon, target.pid)
        planned = {process["pid"] for process in harness.ctl(self.daemon, "plan", "--json").json["targets"]}
        self.assertIn(target.pid, planned)
        self.assertNotIn(self.server.pid, planned)
        plan = harness.ctl(self.daemon, "plan", "--pid", self.server.pid)
        self.assertIn(f"Process {self.server.pid} (python3.11): no known runtime ; requests only; ", plan.stdout)
        self.assertNotIn(self.server.pid, harness.ctl_targets(self.daemon))

    def test_the_end_of_the_process_leaves_what_was_captured(self):
        server = self.start(harness.Server, "any_server", [INTERPRETER, SERVER], (), False, False)
        process = self.capturing(server.pid, "--duration", "30s")
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        sent = [self.get(connection, f"/{i}")["path"] for i in range(REQUESTS)]
        server.send(signal.SIGKILL)
        self.assertEqual([r["path"] for r in self.finish(process, LOSS)], sent)
        self.assertTrue(any(f"Process {server.pid} (python3.11) ended" in w for w in self.result["warnings"]), self.result["warnings"])

    def test_a_process_that_serves_nobody_has_no_requests(self):
        asleep = self.start(harness.Process, "sleep", ["sleep", "60"])
        command = harness.ctl_capture(self.daemon, [asleep.pid], self.logdir, "--level", "3", duration="300ms")
        self.assertEqual(command.status, NOTHING, command.stderr)
        self.assertEqual(command.json["warnings"], [f"Process {asleep.pid} (sleep) {WARNING}"])
        thread = subprocess.run(["ls", f"/proc/{self.daemon.front()}/task"], capture_output=True, text=True, check=True).stdout.split()[-1]
        self.assertNotEqual(int(thread), self.daemon.front())
        command = harness.ctl_capture(self.daemon, [thread], self.logdir)
        self.assertEqual((command.status, command.stderr), (NO_TARGET, f"tfprofctl: there is no process {thread}\n"))

    def test_a_runtime_that_it_loads_in_the_window_is_captured(self):
        server = self.start(harness.Server, "any_server", [INTERPRETER, SERVER, test_lifecycle.LIBRARY], (), False, False)
        process = self.capturing(server.pid, "--duration", "30s")
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        self.get(connection, "/load")
        harness.wait_target(self.daemon, server.pid)
        time.sleep(0.5)
        self.get(connection, "/after")
        self.assertEqual(harness.ctl(self.daemon, "stop", "--pid", server.pid).status, OK)
        paths = [r["path"] for r in self.finish(process, LOSS)]
        self.assertEqual((paths[0], paths[-1]), ("/load", "/after"))
        self.assertTrue(any(f"Process {server.pid} (python3.11) joined" in w for w in self.result["warnings"]), self.result["warnings"])


if __name__ == "__main__":
    harness.main()
