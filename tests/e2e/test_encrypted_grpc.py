#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gRPC on encrypted connections: requests are listed by the objects of gRPC's library, and compared with what clients and server know. As root."""
import collections
import json
import signal
import statistics
import time

import harness
import test_encrypted

PROGRAMS = "grpc_server", "grpc_aio_server"
# What the clients' median may be above ours, for so many clients: the TLS of both sides, and what is not seen in the sockets. More keep each other waiting there.
ERROR_NS = 3_000_000
ERROR_CLIENTS = 1
# Attributed exactly, of the requests with a run.
EXACT = 0.99
TOTAL = 1200
# How long connections are older than the snapshot of their requests.
OLDER_S = 4


class Server(harness.Server):
    def __init__(self, program, truth, certificate, key):
        argv = [harness.PYTHON, harness.SERVERS / f"{program}.py", "--truth", truth, "--tls", certificate, key, harness.MODELS / "half_plus_two"]
        super().__init__(program, argv, (), False, False)
        self.plain_port = int(self.line(r"listening without encryption on (\d+)")[1])


class Client(harness.Process):
    def __init__(self, port, log, certificate, clients, *arguments):
        self.log = log
        super().__init__("grpc_client", [harness.PYTHON, harness.SERVERS / "grpc_client.py", port, "--log", log, "--clients", clients,
                                         *(["--certificate", certificate] if certificate else []), *arguments])
        self.wait_ready(lambda: self.line("connected"))

    def begin(self):
        self.send(signal.SIGUSR1)

    def finish(self):
        if status := self.wait(harness.ANSWER_TIMEOUT_S):
            self.fail(f"ended with {status}: {self.stderr()[-500:]}")
        return [json.loads(line) for line in self.log.read_text().splitlines()]


class EncryptedGrpc(test_encrypted.Encrypted):
    configuration = ""

    def observe(self, program, loads, *arguments):
        """loads: (encrypted, clients, more arguments of the client). Their logs; the requests that were seen are in self.requests."""
        self.truth_path = self.directory / "truth"
        server = self.start(Server, program, self.truth_path, self.certificate, self.key)
        clients = [self.start(Client, server.port if encrypted else server.plain_port, self.directory / f"log{i}",
                              self.certificate if encrypted else None, n, "--id-base", 1 + i * 50_000_000, *more)
                   for i, (encrypted, n, *more) in enumerate(loads)]
        self.process = self.capturing(server.pid, "--duration", "60s", *arguments)
        for client in clients:
            client.begin()
        logs = [client.finish() for client in clients]
        self.requests = self.finish(self.process, server)
        self.read_truth()
        return logs

    def read_truth(self):
        self.truth = {record["id"]: record for record in map(json.loads, self.truth_path.read_text().splitlines())}

    def clients_of(self, requests, log):
        """Each connection is that of one client, by the interval of every request: the entry of the log of each request."""
        entry_of = {(e["client"], e["stream"]): e for e in log}
        found, groups = [], collections.defaultdict(list)
        for r in requests:
            groups[r["connection"]].append(r)
        free = {e["client"] for e in log}
        for group in groups.values():
            fits = [client for client in free if all((e := entry_of.get((client, r["stream"]))) and e["send_ns"] <= r["start_ns"]
                                                     and r["end_ns"] <= e["receive_ns"] for r in group)]
            self.assertEqual(len(fits), 1, (fits, group[0]))
            free.remove(fits[0])
            found += [(r, entry_of[fits[0], r["stream"]]) for r in group]
        return found

    def check(self, requests, log, at_library=True):
        """Each request of the log once, none other, and no run of another one; the library's requests say what is not known of them."""
        self.assertEqual({r["at_library"] for r in requests}, {at_library})
        self.assertEqual(len(requests), len(log))
        # At a socket, the first request on a connection from before the window may have begun before it.
        flags = ("lost", "reset", "cut_end", *(["cut_start"] if at_library else []))
        self.assertEqual([r for r in requests if any(r[flag] for flag in flags)][:2], [])
        pairs = self.clients_of(requests, log)
        wrong = [(r["runs"], self.truth[e["id"]]) for r, e in pairs for run in r["runs"] if not self.is_of(run, self.truth[e["id"]])]
        self.assertEqual(wrong[:2], [])
        exact = sum(r["attribution"] == "exact" for r, _ in pairs)
        over = statistics.median(e["receive_ns"] - e["send_ns"] - r["latency_ns"] for r, e in pairs)
        client = statistics.median(e["receive_ns"] - e["send_ns"] for _, e in pairs)
        print(f"     {len(pairs)} requests, {exact} exact, 0 wrong; the clients' median is {client / 1e6:.2f} ms, {over / 1e6:.3f} ms more than ours")
        self.assertGreaterEqual(exact, EXACT * len(pairs))
        if len({e["client"] for e in log}) <= ERROR_CLIENTS:
            self.assertLess(over, ERROR_NS)
        for r in requests if at_library else ():
            unknown = ("bytes_in", "bytes_out", "local_port", "peer_port", "path", "read_start_ns", "read_end_ns", "write_start_ns", "held")
            self.assertEqual({key: r[key] for key in unknown}, dict.fromkeys(unknown))
            self.assertEqual(sum(r["phases"].values()), r["latency_ns"])

    @staticmethod
    def is_of(run, record):
        return run["tid"] == record["thread"] and record["read_ns"] <= run["start_ns"] and run["end_ns"] <= record["done_ns"]



class Captured(EncryptedGrpc):
    def alone(self, program, clients, *more):
        log, = self.observe(program, [(True, clients, "--count", TOTAL // clients, *more)])
        self.check(self.requests, log)
        self.assertEqual(self.warnings(), [])
        return self.process

    def test_8_clients_and_no_byte_of_their_connections(self):
        process = self.alone("grpc_server", 8)
        for data in (self.listed.read_bytes(), process.stdout().encode(), *(f.read_bytes() for f in harness.xspace_files(self.directory / "log"))):
            self.assertNotIn(b"PredictionService", data)
            self.assertNotIn(b"x-request-id", data)

    def test_a_number_of_requests_ends_the_capture(self):
        log, = self.observe("grpc_server", [(True, 4, "--count", 100)], "--requests-count", 100)
        self.assertGreaterEqual(len(self.requests), 100)
        self.assertLess(len(self.requests), len(log))

    def test_an_event_loop(self):
        self.alone("grpc_aio_server", 8)

    def test_a_server_of_both_kinds(self):
        # In step, with equal numbers of streams: some begin before the window, some in it.
        loads = [(encrypted, 8, "--count", 60, "--warm", warm, "--pause", 0.002) for encrypted in (True, False) for warm in (0, 2)]
        logs = self.observe("grpc_server", loads)
        for encrypted in (True, False):
            log = [{**e, "client": (i, e["client"])} for i, load in enumerate(loads) if load[0] == encrypted for e in logs[i]]
            self.check([r for r in self.requests if r["at_library"] == encrypted], log, encrypted)

    def test_aborted_requests(self):
        # However fast the machine is: some are answered, some are not.
        loads = [(True, 16, "--count", 20, "--timeout", seconds) for seconds in (0.004, 0.03)] + [(True, 2, "--count", 20)]
        log = [entry for log in self.observe("grpc_server", loads) for entry in log]
        codes = collections.Counter(e["code"] for e in log)
        whole = [r for r in self.requests if not (r["reset"] or r["cut_end"])]
        reset = sorted(r["latency_ns"] for r in self.requests if r["reset"])
        print(f"     the clients: {dict(codes)}; ours: {len(whole)} whole, {len(reset)} aborted, of {len(self.requests)}")
        # Some do not reach the library, and an answer may come too late for its client.
        self.assertLessEqual(len(self.requests), len(log))
        self.assertGreaterEqual(len(whole), codes[0])
        self.assertGreater(min(codes[0], codes[4], len(reset)), 0)
        # Some are noticed late, where nobody reports their end.
        self.assertLess(statistics.median(reset), 60e6)

    @harness.only_long
    def test_one_client(self):
        self.alone("grpc_server", 1)

    @harness.only_long
    def test_64_clients(self):
        self.alone("grpc_server", 64)

    @harness.only_long
    def test_connections_from_before_the_window(self):
        self.alone("grpc_server", 8, "--warm", 3)


class Recorded(EncryptedGrpc):
    def test_a_snapshot_has_the_requests_of_connections_that_are_older(self):
        self.truth_path = self.directory / "truth"
        servers = [self.start(Server, "grpc_server", self.directory / name, self.certificate, self.key) for name in ("truth", "other")]
        # A library that is loaded after the recorder has begun with a process is not probed.
        daemon = self.start(harness.Daemon, "--recorder", 1, "--recorder-overhead", 100)
        for server in servers:
            harness.wait_target(daemon, server.pid)
            harness.wait_recorded(daemon, server.pid)
        client, other = (self.start(Client, server.port, self.directory / f"log{i}", self.certificate, 4, "--count", 50, "--warm", 1)
                         for i, server in enumerate(servers))
        # That they are encrypted is known from their first bytes only.
        time.sleep(OLDER_S + 1)
        begun = time.monotonic()
        client.begin()
        log = client.finish()
        path = self.directory / "requests"
        last_s = time.monotonic() - begun + 1
        done = harness.ctl(daemon, "snapshot", "-o", self.directory / "logdir", "--last", f"{last_s:.3f}s", "--requests", path)
        self.assertIn(done.status, (test_encrypted.OK, test_encrypted.LOSS), done.stderr)
        servers[0].stop()
        self.read_truth()
        requests = [r for r in map(json.loads, path.read_text().splitlines()) if r["pid"] == servers[0].pid]
        self.assertGreater(len(requests), 0, (last_s, done.stdout, done.stderr))
        self.check(requests, log)


if __name__ == "__main__":
    harness.main()
