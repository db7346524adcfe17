#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests that pass through two processes of a host, compared with what their servers and clients know. As root."""
import dataclasses
import json

import harness
import test_requests
from test_requests import Case

MODEL = "half_plus_two"
# Between two network namespaces; addresses for examples (RFC 5737).
LINK, NEAR, FAR = "tfprofd-hop", "198.51.100.1", "198.51.100.2"


class Gateway(harness.Server):
    def __init__(self, name, backend, log, *arguments):
        self.log = log
        super().__init__(name, [harness.PYTHON, harness.SERVERS / f"{name}.py", backend, log, *arguments], (), False, False)

    def entries(self):
        return {entry["id"]: entry for entry in map(json.loads, self.log.read_text().splitlines())}


class Hops(test_requests.Comparison):
    def begin(self, gateway, address="127.0.0.1", prefix=(), arguments=()):
        self.truth = self.directory / "truth"
        self.backend = self.start(harness.NativeServer, [MODEL], prefix=prefix, arguments=["--truth", self.truth])
        self.gateway = self.start(Gateway, gateway, f"{address}:{self.backend.port}", self.directory / "gateway.log", *arguments)
        harness.wait_target(self.daemon, self.backend.pid)

    def check(self, gateway, *loads, **servers):
        self.begin(gateway, **servers)
        cases = [Case(gateway, True, MODEL, clients, rate, True) for clients, rate in loads]
        for case in cases:
            self.capture(case, [self.gateway.pid, self.backend.pid], self.gateway.port)
        self.assertEqual((self.gateway.stop(), self.backend.stop()), (0, 0))
        served = {record["id"]: record for record in map(json.loads, self.truth.read_text().splitlines())}
        for case in cases:
            self.compare(case, self.gateway.entries(), served)

    def compare(self, case, sent, served):
        """Of the requests of the gateway: each that is whole has the one that it sent, and none has another."""
        numbered = {request["request"]: request for request in case.requests}
        own = dataclasses.replace(case, requests=[r for r in case.requests if r["pid"] == self.gateway.pid])
        wrong, right, whole = [], 0, 0
        for request, entry in test_requests.join(own)[0]:
            truth, log = served[entry["id"]], sent[entry["id"]]
            self.assertEqual(truth["peer_port"], log["port"])
            for call in request["calls"]:
                if not self.is_own(call, request, numbered[call["request"]], truth, log):
                    wrong.append((request["request"], call, truth, log))
            if test_requests.is_whole(request):
                whole += 1
                right += len(request["calls"]) == 1
        print(f"     {case.label}, {case.clients} clients: {whole} requests, {right} with the one that they sent, {len(wrong)} with another one")
        self.assertEqual(wrong[:2], [])
        self.assertGreater(whole, 30)
        self.assertEqual(right, whole)

    def is_own(self, call, request, other, truth, log):
        sender = other["called_by"]
        return (other["pid"], other["peer_port"], sender["request"], sender["pid"]) == \
            (self.backend.pid, log["port"], request["request"], self.gateway.pid) and \
            other["start_ns"] <= truth["run_start_ns"] and (truth["run_end_ns"] <= other["end_ns"] or other["cut_end"]) and \
            log["sent_ns"] <= call["start_ns"] <= (call["end_ns"] or log["answered_ns"]) <= log["answered_ns"]

    def test_a_thread_for_each_request(self):
        self.check("gateway", (1, 200), (8, 400), (64, 0))

    def test_tasks_of_an_event_loop(self):
        self.check("asgi_gateway", (1, 100), (8, 200), (64, 0))

    def test_tasks_of_uvloop(self):
        self.check("asgi_gateway", (1, 100), (8, 200), (64, 0), arguments=["uvloop"])

    def test_a_server_in_a_network_namespace_of_its_own(self):
        other = self.start(harness.Process, "namespace", ["unshare", "-n", "sh", "-c", "ip link set lo up && echo ready && exec sleep 600"])
        other.wait_ready(lambda: other.line("ready"))
        inside = ["nsenter", f"--target={other.pid}", "--net"]
        # It ends with the namespace.
        for command in (f"ip link add {LINK} type veth peer name {LINK} netns {other.pid}", f"ip addr add {NEAR}/30 dev {LINK}", f"ip link set {LINK} up"):
            self.assertEqual(harness.run(*command.split()).status, 0)
        for command in (f"ip addr add {FAR}/30 dev {LINK}", f"ip link set {LINK} up"):
            self.assertEqual(harness.run(*inside, *command.split()).status, 0)
        self.check("gateway", (8, 400), (64, 0), address=FAR, prefix=[*inside, "env", f"LISTEN_ADDRESS={FAR}"])


if __name__ == "__main__":
    harness.main()
