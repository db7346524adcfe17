#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nothing of what requests carry, and of what processes were started with, is in any output of the daemon: texts that occur nowhere else are
planted there, and every byte of every output is searched for them. As root."""
import array
import concurrent.futures
import contextlib
import gzip
import http.client
import json
import lzma
import os
import secrets
import string
import sys
import threading
import urllib.request
import zlib

import grpc

import harness
from test_sockets import bytes_of_bits, huffman_bits

sys.path.append(str(harness.SERVERS))
from load import predict_messages

MODEL = "half_plus_two"
PREDICT = "/tensorflow.serving.PredictionService/Predict"
WINDOW_S = "1500ms"
PAUSE_S = 0.02
# Who runs the servers: the recorder records those of this user only, however many others run beside this test.
OWNER = 4720
AS_OWNER = ["setpriv", f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups"]


def letters(count):
    return "".join(secrets.choice(string.ascii_uppercase) for _ in range(count))


def canary(tag, kind):
    """Its beginning and its last letters are in no other text, and as floats they are finite."""
    return f"{tag}{kind}{letters(12)}".ljust(32, "Z")


class Canaries(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.tag = letters(9)
        self.planted = {kind: canary(self.tag, kind) for kind in ("TENSOR", "PROMPT", "HEADER", "TOKEN", "COOKIE", "QUERY", "ENVIRON", "ARGUMENT")}
        # A path is shown: what finds it would find the others.
        self.shown = "SHOWN" + secrets.token_hex(8)
        self.messages = predict_messages()  # which threads must not do at once
        self.metrics = harness.free_port()
        self.daemon = self.start(harness.Daemon, "--recorder", 2, "--recorder-overhead", 100, "--lifecycle", "--verbose",
                                 "--captures-user", OWNER, "--metrics-listen", f"127.0.0.1:{self.metrics}")
        self.outputs = {}
        # The servers write there.
        self.directory.chmod(0o777)
        self.floats = array.array("f", self.planted["TENSOR"].encode())
        # At once, by threads that live as long as the servers do.
        pool = concurrent.futures.ThreadPoolExecutor(3)
        self.addCleanup(pool.shutdown)
        argument = ["--truth", self.directory / f"{self.planted['ARGUMENT']}.json"]
        with self.planted_environment():
            begun = [pool.submit(self.start, kind, (MODEL,), prefix=AS_OWNER, arguments=[*more, *argument])
                     for kind, more in ((harness.NativeServer, ["--grpc-port", 0]), (harness.GrpcServer, []), (harness.HttpServer, []))]
            self.servers = [one.result() for one in begun]
        self.native = self.servers[0]
        for server in self.servers:
            harness.wait_target(self.daemon, server.pid)
            harness.read_files(self.daemon, server)

    @contextlib.contextmanager
    def planted_environment(self):
        os.environ["PLANTED_VARIABLE"] = self.planted["ENVIRON"]
        try:
            yield
        finally:
            del os.environ["PLANTED_VARIABLE"]

    def rest(self, port):
        """Requests of every form, on a connection of their own."""
        p = self.planted
        body = json.dumps({"instances": self.floats.tolist(), "prompt": p["PROMPT"], "signature_name": p["PROMPT"]}).encode()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=harness.ANSWER_TIMEOUT_S)
        headers = {"X-Planted": p["HEADER"], p["HEADER"]: "1", "Authorization": f"Bearer {p['TOKEN']}", "Cookie": f"id={p['COOKIE']}"}
        statuses = []
        for path, data in ((f"/v1/models/{MODEL}:predict", body), (f"/v1/models/{MODEL}:predict?key={p['QUERY']}", body),
                           (f"/v1/models/{self.shown}:predict?key={p['QUERY']}#{p['QUERY']}", body),
                           (f"/v1/models/{MODEL}:predict", iter([body[:40], body[40:]])),
                           (f"/v1/models/{MODEL}:predict", p["PROMPT"].encode() * 100)):
            connection.request("POST", path, data, headers, encode_chunked=not isinstance(data, bytes))
            response = connection.getresponse()
            response.read()
            statuses.append(response.status)
        connection.close()
        return statuses

    def grpc(self, port):
        p = self.planted
        messages = self.messages
        request = messages.PredictRequest()
        request.model_spec.name = MODEL
        tensor = request.inputs["x"]
        tensor.dtype, tensor.tensor_content = 1, self.floats.tobytes()
        tensor.tensor_shape.dim.add(size=len(self.floats))
        wrong = messages.PredictRequest.FromString(request.SerializeToString())
        wrong.model_spec.name = p["PROMPT"]
        wrong.inputs["prompt"].dtype = 7
        wrong.inputs["prompt"].string_val.append(p["PROMPT"].encode())
        metadata = (("x-planted", p["HEADER"]), ("authorization", f"Bearer {p['TOKEN']}"), ("cookie", p["COOKIE"]), (p["HEADER"].lower(), "1"),
                    ("planted-bin", p["HEADER"].encode()))
        statuses = []
        with grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]) as channel:
            for path, message in ((PREDICT, request), (PREDICT, wrong), (f"{PREDICT}?key={p['QUERY']}", request),
                                  (f"/{self.shown}/Predict?key={p['QUERY']}", request)):
                try:
                    channel.unary_unary(path)(message.SerializeToString(), metadata=metadata, timeout=harness.ANSWER_TIMEOUT_S)
                    statuses.append(grpc.StatusCode.OK)
                except grpc.RpcError as error:
                    statuses.append(error.code())
        return statuses

    @contextlib.contextmanager
    def requests(self):
        """Requests to each server, again and again."""
        over = threading.Event()
        native, python_grpc, python_http = self.servers
        self.address = harness.wait_target(self.daemon, native.pid)["address"]

        def repeat(function, port):
            found = set()
            while not over.wait(PAUSE_S):
                found.add(tuple(function(port)))
            return found
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            done = [pool.submit(repeat, *what) for what in ((self.rest, native.port), (self.grpc, native.grpc_port), (self.grpc, python_grpc.port),
                                                            (self.rest, python_http.port))]
            try:
                yield
            finally:
                over.set()
            # The first of each was served: its tensor was in the model.
            self.assertEqual([{statuses[0] for statuses in one.result()} for one in done],
                             [{200}, {grpc.StatusCode.OK}, {grpc.StatusCode.OK}, {200}])

    def ctl(self, name, *arguments, expect=(0,)):
        command = harness.ctl(self.daemon, *arguments)
        self.assertIn(command.status, expect, command.stderr)
        self.outputs[f"{name}, standard output"] = command.stdout.encode()
        self.outputs[f"{name}, standard error"] = command.stderr.encode()
        return command

    def ask(self):
        """All that can be had of the daemon."""
        pids = [word for server in self.servers for word in ("--pid", server.pid)]
        files = self.directory / "files"
        files.mkdir()
        with self.requests():
            self.ctl("capture", "capture", *pids, "--duration", WINDOW_S, "--level", 3, "--memory", "--explain", "--slowest", 20, "--record",
                     files / "a.tfp", "--requests", files / "a.ndjson", "-o", files / "a", "--input-stages", "--device-plane", expect=(0, 6))
            self.ctl("capture as JSON", "capture", *pids, "--duration", "300ms", "--json", "--slowest", 20, "-o", files / "b", expect=(0, 6))
            self.outputs["Profile"] = harness.profile(self.address, duration_ms=300).SerializeToString()
            for name, form in (("as text", ()), ("as JSON", ("--json",))):
                self.ctl(f"snapshot {name}", "snapshot", "--slowest", 20, "--requests", files / f"snapshot {name}", "-o", files / f"c {name}", *form,
                         expect=(0, 6))
                for command in ("status", "targets", "lifecycle"):
                    self.ctl(f"{command} {name}", command, *form)
                self.ctl(f"plan {name}", "plan", *pids, *form)
                self.ctl(f"doctor {name}", "doctor", "--pid", self.native.pid, *form, expect=(0, 7))
            service = harness.profiler_service()
            channel, future = harness.rpc(self.daemon.address, "Monitor", service.MonitorRequest(monitoring_level=2, timestamp=True), service.MonitorResponse)
            with channel:
                self.outputs["Monitor"] = future.result().data.encode()
            self.outputs["metrics"] = urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics").read()
        for name, form in (("as text", ()), ("as JSON", ("--json",))):
            command = harness.run(harness.OUT / "tfprofctl", "replay", files / "a.tfp", "--slowest", 20, "--requests", files / f"replayed {name}",
                                  "-o", files / f"d {name}", *form)
            self.outputs[f"replay {name}"] = (command.stdout + command.stderr).encode()

    def collect(self):
        """The files, too: what commands wrote, what the daemon keeps, and its log."""
        for directory in (self.directory / "files", self.daemon.state):
            for path in directory.rglob("*"):
                if path.is_file():
                    self.outputs[str(path)] = path.read_bytes()
        self.outputs["log"] = self.daemon.stdout_path.read_bytes() + self.daemon.stderr_path.read_bytes()
        for name, data in list(self.outputs.items()):
            for decompress in (gzip.decompress, zlib.decompress, lzma.decompress):
                with contextlib.suppress(OSError, EOFError, zlib.error, lzma.LZMAError):
                    self.outputs[f"{name}, decompressed"] = decompress(data)

    def found(self, text):
        """The outputs that contain it, in any letters, or in HPACK's code at any place in a byte."""
        plain = text.lower().encode()
        coded = [bytes_of_bits("1" * shift + huffman_bits(form))[1:-1] for shift in range(8) for form in (text, text.lower())]
        return {name for name, data in self.outputs.items() if plain in data.lower() or any(c in data for c in coded)}

    def test_what_requests_and_processes_carry_is_in_no_output(self):
        self.ask()
        self.collect()
        listed = [json.loads(line) for line in (self.directory / "files/a.ndjson").read_text().splitlines()]
        self.assertEqual({(r["pid"], r["protocol"]) for r in listed},
                         {(s.pid, p) for s, p in zip([self.native, *self.servers], ("http2", "http1", "http2", "http1"))})
        # Paths are in all of these, so that a text beside them would be found in them.
        where = self.found(self.shown)
        for output in ("a.tfp", "a.ndjson", "xplane.pb", "snapshot as text", "replayed as text", "Profile"):
            self.assertTrue(any(output in name for name in where), f"{output} of {sorted(where)}")
        leaks = {}
        for kind, text in self.planted.items():
            for part in (text, text.rstrip("Z")[-12:]):
                if names := self.found(part):
                    leaks[kind] = sorted(names)
        self.assertEqual(leaks, {})
        self.assertEqual(self.found(self.tag), set())
        print(f"     {len(self.outputs)} outputs, {sum(map(len, self.outputs.values())) / 1e6:.1f} MB, without any of {len(self.planted)} texts")


if __name__ == "__main__":
    harness.main()
