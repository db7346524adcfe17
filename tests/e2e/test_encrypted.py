#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests on encrypted connections, compared with what their clients know: of servers that use OpenSSL's library in every way that there is,
and only where the configuration allows it. As root."""
import collections
import concurrent.futures
import http.client
import json
import re
import socket
import ssl
import statistics
import subprocess
import time

import harness
from test_lifecycle import Lifecycle, breakpoints

FIXTURES = harness.BUILD / "fixtures"
RUNTIME = FIXTURES / "libtensorflow_framework.so.2"
OK, NOTHING, LOSS = 0, 5, 6
CLIENTS, REQUESTS = 4, 40
PAUSE_S = 0.3
PATHS = ("/a", "/wait/5", "/large", "/missing", "/b?key=CANARY")
CANARY = "CANARY"
ALLOWED = "[access tests]\nusers = root\ntarget-users = *\ndecrypted-requests = yes\n"
# The client's median less ours.
ERROR_NS, ERROR_SHARE = 1_000_000, 0.03
LIBRARY = "libssl.so.3"
KEY = "decrypted-requests in a section [access]"


class Server(harness.Server):
    """encrypted of tests/fixtures."""

    def __init__(self, certificate, key, way):
        argv = ["env", f"LD_PRELOAD={RUNTIME}", FIXTURES / "encrypted", certificate, key, way]
        super().__init__("encrypted", argv, (), False, False)


class Nghttpd(harness.Process):
    """An HTTP/2 server that is not ours."""

    def __init__(self, certificate, key, directory):
        self.port = harness.free_port()
        super().__init__("nghttpd", ["env", f"LD_PRELOAD={RUNTIME}", "nghttpd", "-a", "127.0.0.1", "-d", directory, "-n", "2", "-v", self.port, key,
                                     certificate])
        self.wait_ready(self.serves)

    def serves(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class Encrypted(Lifecycle):
    configuration = ALLOWED

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.files = harness.pathlib.Path(harness.tempfile.mkdtemp(prefix="tfprofd-e2e-"))
        cls.addClassCleanup(harness.shutil.rmtree, cls.files, ignore_errors=True)
        cls.certificate, cls.key = cls.files / "certificate", cls.files / "key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                        "/CN=localhost", "-keyout", cls.key, "-out", cls.certificate], check=True, capture_output=True)
        (cls.files / "tfprofd.conf").write_text(cls.configuration)
        cls.daemon = cls.start_shared(harness.Daemon, "--config", cls.files / "tfprofd.conf")

    def context(self):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context

    def capturing(self, pid, *arguments):
        """A capture whose window is open."""
        harness.wait_target(self.daemon, pid)
        self.listed = self.directory / "requests.ndjson"
        process = harness.Process("capture", [harness.OUT / "tfprofctl", "--daemon", f"unix:{self.daemon.socket}", "capture", "--pid", pid,
                                              "-o", self.directory / "log", "--json", "--requests", self.listed, *arguments])
        self.addCleanup(process.stop)
        self.wait_window(self.daemon)
        return process

    def finish(self, process, server, expect=(OK, LOSS)):
        """Ends it by its target's end: its requests, and its warnings."""
        # A client can have its answer before the call that wrote it has returned.
        time.sleep(PAUSE_S)
        self.ended = server.stop()
        status = process.wait(60)
        self.assertIn(status, expect, process.stderr())
        self.result = json.loads(process.stdout()) if process.stdout() else {}
        return [json.loads(line) for line in self.listed.read_text().splitlines()] if self.listed.exists() else []

    def exchange(self, connection, path, body=b"", **headers):
        """The entry of a client's log."""
        send_ns = time.monotonic_ns()
        connection.request("POST", path, body, headers)
        port = connection.sock.getsockname()[1]
        response = connection.getresponse()
        response.read()
        return {"peer_port": port, "path": path.partition("?")[0], "status": response.status, "send_ns": send_ns, "receive_ns": time.monotonic_ns()}

    def connect(self, port):
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=self.context())
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def load(self, port, count=REQUESTS, paths=PATHS):
        """What the clients know of their requests, on connections that are kept; the last one of each has an end without a length."""
        def client(number):
            connection = self.connect(port)
            log = [self.exchange(connection, paths[(number + i) % len(paths)], CANARY.encode() * (i % 3 * 2000), Cookie=f"id={CANARY}")
                   for i in range(count)]
            connection.close()
            return log
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            return [entry for log in pool.map(client, range(CLIENTS)) for entry in log]

    def compare(self, requests, log, by_port=True):
        """Each request of the log once, and no other."""
        def key(entry):
            return (entry["peer_port"] if by_port else None, entry["path"], entry["status"])
        self.assertEqual(collections.Counter(map(key, requests)), collections.Counter(map(key, log)))
        self.check_whole(requests)

    def check_whole(self, requests):
        keys = ("cut_start", "cut_end", "lost", "reset", "path", "status", "bytes_in", "bytes_out", "stream", "phases", "held", "peer_port")
        self.assertEqual([{k: r[k] for k in keys} for r in requests if r["cut_start"] or r["cut_end"] or r["lost"] or r["reset"]], [])

    def errors_ns(self, requests, log):
        """The client's latency less ours, for each request."""
        def ordered(entries, time_key):
            groups = collections.defaultdict(list)
            for entry in sorted(entries, key=lambda e: e[time_key]):
                groups[entry["peer_port"]].append(entry)
            return groups
        ours, theirs = ordered(requests, "start_ns"), ordered(log, "send_ns")
        return [e["receive_ns"] - e["send_ns"] - r["latency_ns"] for port in theirs for r, e in zip(ours[port], theirs[port])]

    def check_latency(self, requests, log):
        errors = self.errors_ns(requests, log)
        median = statistics.median(errors)
        client = statistics.median(e["receive_ns"] - e["send_ns"] for e in log)
        print(f"     {len(requests)} requests; the clients' median is {client / 1e6:.2f} ms, {median / 1e6:.3f} ms more than ours")
        self.assertLess(abs(median), max(ERROR_NS, ERROR_SHARE * client))

    def forecast_probes(self, pid):
        """Of a call in the library; 0: the forecast has none."""
        plan = harness.ctl(self.daemon, "plan", "--pid", pid, "--level", 1, "--json").json
        return {cost["unit"]: cost["probes"] for cost in plan["costs"]}.get("call in a library that encrypts", 0)

    def warnings(self):
        return [w for w in self.result.get("warnings", []) if "connections are encrypted" in w]

    def check_canary(self, process):
        files = [self.listed, *harness.xspace_files(self.directory / "log")]
        for name, data in [("output", (process.stdout() + process.stderr()).encode()), *((f, f.read_bytes()) for f in files)]:
            self.assertNotIn(CANARY.encode(), data, name)


class Ways(Encrypted):
    def check_way(self, way, by_port=True):
        server = self.start(Server, self.certificate, self.key, way)
        process = self.capturing(server.pid, "--duration", "60s")
        self.assertEqual(self.forecast_probes(server.pid), 2)
        self.assertIn("on_plaintext", harness.verified_instructions(self.daemon))
        self.assertGreater(breakpoints(server.pid, LIBRARY), 0)
        log = self.load(server.port)
        requests = self.finish(process, server)
        self.compare(requests, log, by_port)
        if by_port:
            self.check_latency(requests, log)
        self.assertEqual(self.warnings(), [])
        self.check_canary(process)
        return requests

    def test_blocking_sockets(self):
        requests = self.check_way("blocking")
        self.assertEqual([r for r in requests if r["no_arrival"]], [])

    def test_sockets_that_do_not_wait_and_few_bytes_at_a_time(self):
        self.check_way("nonblocking")

    def test_a_programs_own_functions_for_the_socket(self):
        self.check_way("callback")

    def test_memory_in_place_of_sockets(self):
        requests = self.check_way("memory", by_port=False)
        self.assertEqual({r["peer_port"] for r in requests}, {None})

    def test_pipelined_requests_and_an_answer_that_ends_with_its_connection(self):
        server = self.start(Server, self.certificate, self.key, "blocking")
        process = self.capturing(server.pid, "--duration", "60s")
        log = []
        with self.context().wrap_socket(socket.create_connection(("127.0.0.1", server.port))) as client:
            port = client.getsockname()[1]
            head = b"POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
            client.sendall(b"".join(head % i for i in range(5)))
            client.sendall((head % 9).replace(b"/9", b"/until-close"))
            got = b""
            while more := client.recv(65536):
                got += more
        self.assertEqual(got.count(b"HTTP/1.1 200"), 6)
        log = [{"peer_port": port, "path": path, "status": 200} for path in [*(f"/{i}" for i in range(5)), "/until-close"]]
        requests = self.finish(process, server)
        self.compare(requests, log)

    def test_connections_from_before_the_window(self):
        for way in ("blocking", "memory"):
            server = self.start(Server, self.certificate, self.key, way)
            connection = self.connect(server.port)
            self.exchange(connection, "/before")
            process = self.capturing(server.pid, "--duration", "60s")
            # The call that waits for the first of these was entered before there was a probe.
            log = [self.exchange(connection, f"/{i}") for i in range(10)]
            requests = self.finish(process, server)
            paths = [r["path"] for r in requests if not (r["cut_start"] or r["lost"])]
            self.assertEqual(paths[-9:], [e["path"] for e in log[1:]])
            self.assertLessEqual(len(requests), 10)


class Http2(Encrypted):
    def test_another_servers_http2(self):
        (self.files / "index.html").write_text("x" * 5000)
        server = self.start(Nghttpd, self.certificate, self.key, self.files)
        process = self.capturing(server.pid, "--duration", "60s")
        done = subprocess.run(["h2load", "-n", "600", "-c", "3", "-m", "4", f"https://127.0.0.1:{server.port}/index.html",
                               f"https://127.0.0.1:{server.port}/nothing"], capture_output=True, text=True, timeout=60, check=True)
        counts = {digit: int(count) for count, digit in re.findall(r"(\d+) ([2345])xx", done.stdout)}
        self.assertEqual(counts["2"] + counts["4"], 600, done.stdout)
        requests = self.finish(process, server)
        self.check_whole(requests)
        self.assertEqual(collections.Counter(str(r["status"])[0] for r in requests), {"2": counts["2"], "4": counts["4"]})
        self.assertEqual(collections.Counter((r["protocol"], r["path"]) for r in requests),
                         {("http2", "/index.html"): counts["2"], ("http2", "/nothing"): counts["4"]})
        self.assertEqual(self.warnings(), [])


class Python(Encrypted):
    def test_a_thread_for_each_connection(self):
        truth = self.directory / "truth"
        server = self.start(harness.HttpServer, ["half_plus_two"], arguments=["--truth", truth, "--tls", self.certificate, self.key])
        body = json.dumps({"instances": [1.0, 2.0]}).encode()
        first = self.connect(server.port)
        self.exchange(first, "/v1/models/half_plus_two:predict", body)
        first.close()
        process = self.capturing(server.pid, "--duration", "60s")

        def client(number):
            connection = self.connect(server.port)
            log = []
            for i in range(20):
                log.append(self.exchange(connection, "/v1/models/half_plus_two:predict", body, **{"x-request-id": str(1 + number * 100 + i)}))
                time.sleep(0.005)
            connection.close()
            return log
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            log = [entry for entries in pool.map(client, range(2)) for entry in entries]
        requests = self.finish(process, server)
        self.compare(requests, log)
        self.assertEqual(self.ended, 0)
        runs = [json.loads(line) for line in truth.read_text().splitlines()]
        self.check_latency(requests, log)
        self.assertEqual(self.warnings(), [])
        self.assertEqual(collections.Counter(r["attribution"] for r in requests), {"exact": 40})
        for request in requests:
            # Besides the model's run there are some that make its input.
            own, = [t for t in runs for run in request["runs"]
                    if t["run_start_ns"] <= run["start_ns"] and run["end_ns"] <= t["run_end_ns"] and t["thread"] == run["tid"]]
            self.assertEqual(own["peer_port"], request["peer_port"])


class NotAllowed(Encrypted):
    configuration = "[access tests]\nusers = root\ntarget-users = *\n"

    def test_nothing_is_read_and_a_warning_names_the_key(self):
        server = self.start(Server, self.certificate, self.key, "blocking")
        process = self.capturing(server.pid, "--duration", "60s")
        # No breakpoint is in the library.
        self.assertEqual(breakpoints(server.pid, LIBRARY), 0)
        self.assertEqual(self.forecast_probes(server.pid), 0)
        # Nor is the program for it loaded, beside those of sockets.
        self.assertEqual({"on_sent", "on_plaintext"} & set(harness.verified_instructions(self.daemon)), {"on_sent"})
        self.load(server.port, 5)
        # There was no run either.
        self.assertEqual(self.finish(process, server, (NOTHING,)), [])
        warning, = self.warnings()
        self.assertIn(f"requests on {CLIENTS} of them were not read", warning)
        self.assertIn(KEY, warning)


if __name__ == "__main__":
    harness.main()
