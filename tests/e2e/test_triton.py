# SPDX-License-Identifier: Apache-2.0
"""Requests, batches and queues of Triton, against its own statistics and what a backend and clients wrote down."""
import collections
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import queue
import shutil
import signal
import statistics
import struct
import tempfile
import threading
import time

import harness
import grpc
import test_lifecycle

WHEEL = harness.BUILD / "triton"
# The release of the server, by that of the wheel.
SERVERS = {"0.4.2": "2.39.0", "0.5.0": "2.41.0", "0.5.6": "2.44.0", "0.5.11": "2.49.0", "0.7.0": "2.51.0"}
# What the tests have compared so far, for tests/releases.
FIGURE_NAMES = ("server", "requests", "right", "wrong", "batches", "executions", "answers", "different")
FIGURES = collections.Counter()
MODELS = {"plain": "", "batched": "dynamic_batching { max_queue_delay_microseconds: 500 }",
          # It answers each request with several messages.
          "decoupled": "model_transaction_policy { decoupled: true }"}
MESSAGES = 3
CONFIG = """backend: "{}"
max_batch_size: 8
input {{ name: "x" data_type: TYPE_FP32 dims: [ 1 ] }}
output {{ name: "y" data_type: TYPE_FP32 dims: [ 1 ] }}
instance_group {{ kind: KIND_CPU count: 2 }}
{}
"""
# Two models, one after the other.
ENSEMBLE = """platform: "ensemble"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 1 ] }
ensemble_scheduling {
  step [ { model_name: "batched" model_version: -1 input_map { key: "x" value: "x" } output_map { key: "y" value: "between" } },
         { model_name: "plain" model_version: -1 input_map { key: "x" value: "between" } output_map { key: "y" value: "y" } } ]
}
"""
PATHS = {"http1": "/v2/models/{}/infer", "http2": "/inference.GRPCInferenceService/ModelInfer"}
CLIENTS, REQUESTS, WORK_US = 8, 40, 4000
WINDOW_S = 10
CYCLES = 200 if harness.LONG else 12
# Of the sums of Triton's statistics, of each request.
SHARE, EACH_NS = 0.01, 5_000
UNKNOWN = 0.01
# From the end of a batch's work to the return of the call.
RELEASED_NS = 200_000
# The kernel may free an answer's last byte after the client has it.
LATE_NS = 2_000_000


class Server(harness.Process):
    """Triton's server with a backend of the tests, and what that wrote down."""
    environment = {}

    def __init__(self, wheel, directory, work_us=WORK_US, is_traced=True):
        self.truth_path, self.trace_path = directory / "truth", directory / "trace"
        self.wheel = wheel
        for name, text in self.models().items():
            (directory / "models" / name / "1").mkdir(parents=True)
            (directory / "models" / name / "config.pbtxt").write_text(text)
        self.add_files(directory)
        self.port, self.grpc_port = harness.free_port(), harness.free_port()
        super().__init__("tritonserver", [wheel / "pytriton/tritonserver/bin/tritonserver", "--model-repository", directory / "models",
                                          "--backend-directory", self.backends(directory), "--http-port", self.port,
                                          "--grpc-port", self.grpc_port, "--allow-metrics", 0, "--http-thread-count", 2,
                                          *(word for setting in (f"triton,file={self.trace_path}", "level=TIMESTAMPS", "rate=1", "count=-1")
                                            if is_traced for word in ("--trace-config", setting))],
                         env={"TRITON_TRUTH": str(self.truth_path), "TRITON_WORK_US": str(work_us), **self.environment})
        self.wait_ready(self.answers)

    def models(self):
        """{name: configuration}"""
        return {**{name: CONFIG.format("half_plus_two", batching) for name, batching in MODELS.items()}, "ensemble": ENSEMBLE}

    def add_files(self, directory):
        """Those of the models, and of their backend."""

    def backends(self, directory):
        return harness.BUILD / "servers/triton"

    def children(self):
        return []

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()

    def answers(self):
        try:
            return self.get("/v2/health/ready")[0] == 200
        except OSError:
            return False

    def counts(self, model):
        return json.loads(self.get(f"/v2/models/{model}/stats")[1])["model_stats"][0]

    def trace(self):
        """{id of a request: [what its own trace has of each of its steps, as {name: ns}]}, in their order. An ensemble itself is no step."""
        traces = collections.defaultdict(dict)
        for entry in json.loads(self.trace_path.read_text()):
            traces[entry["id"]].update({"request": int(entry["request_id"])} if "request_id" in entry else {t["name"]: t["ns"] for t in entry["timestamps"]})
        found = collections.defaultdict(list)
        for trace in sorted(traces.values(), key=lambda trace: trace["QUEUE_START"]):
            if "COMPUTE_START" in trace:
                found[trace["request"]].append(trace)
        return found

    def truth(self):
        """{id of a request: [(thread, number of its batch, requests of that, its begin, its end)]}, of each its batches in order."""
        found = collections.defaultdict(list)
        lines = [line for path in self.truth_path.parent.glob("truth*") for line in path.read_text().splitlines()]
        for line in sorted(lines, key=lambda line: int(line.split()[3])):
            *batch, number = map(int, line.split())
            found[number].append(tuple(batch))
        return found


class PythonServer(Server):
    """Its model is one of the Python backend, in two processes of their own."""
    # They look for the interpreter's packages by the python3 there.
    environment = {"PATH": "/usr/bin:/bin"}

    def models(self):
        return {"scripted": CONFIG.format("python", MODELS["batched"])}

    def add_files(self, directory):
        shutil.copy(harness.SERVERS / "triton/model.py", directory / "models/scripted/1")
        backend, wheel = self.backends(directory) / "python", self.wheel / "pytriton/tritonserver"
        backend.mkdir(parents=True)
        # For Debian's CPython, which has PyTorch.
        for path in (wheel / "python_backend_stubs/3.11/triton_python_backend_stub", *(wheel / "backends/python").glob("*triton_python*")):
            (backend / path.name).symlink_to(path)

    def backends(self, directory):
        return directory / "backends"

    def children(self):
        return [int(pid) for pid in pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]


class HttpClient:
    requests = REQUESTS

    def __init__(self, server, model):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        self.connection.connect()
        self.path = f"/v2/models/{model}/infer"

    def ask(self, number):
        body = {"id": str(number), "inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [number]}]}
        self.connection.request("POST", self.path, json.dumps(body))
        return json.loads(self.connection.getresponse().read())["outputs"][0]["data"][0]

    def close(self):
        self.connection.close()


def field(number, value):
    """A field of a protobuf message."""
    return bytes([number << 3 | 2, len(value)]) + value


class GrpcClient:
    requests = REQUESTS

    def __init__(self, server, model):
        # Each with a connection of its own.
        self.channel = grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", options=[("grpc.use_local_subchannel_pool", 1)])
        grpc.channel_ready_future(self.channel).result(timeout=30)
        self.infer = self.channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        self.model = model.encode()

    def message(self, number):
        tensor = field(1, b"x") + field(2, b"FP32") + field(3, bytes([1, 1]))
        return field(1, self.model) + field(3, str(number).encode()) + field(5, tensor) + field(7, struct.pack("<f", number))

    def ask(self, number):
        # The last field is raw_output_contents.
        return struct.unpack("<f", self.infer(self.message(number), timeout=30)[-4:])[0]

    def close(self):
        self.channel.close()


class StreamClient(GrpcClient):
    """What it asks are messages of one stream."""
    requests = 1

    def __init__(self, server, model):
        super().__init__(server, model)
        self.questions = queue.Queue()
        self.answers = self.channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")(iter(self.questions.get, None))

        def infer(message, timeout):
            self.questions.put(message)
            return [next(self.answers) for _ in range(MESSAGES if model == "decoupled" else 1)][-1]
        self.infer = infer

    def close(self):
        self.questions.put(None)
        if list(self.answers):
            raise harness.HarnessError("a stream has more answers than questions")
        super().close()


class HastyClient(StreamClient):
    """It does not wait for an answer before it asks again."""

    def __init__(self, server, model):
        super().__init__(server, model)
        self.expected = []

    def ask(self, number):
        self.questions.put(self.message(number))
        self.expected.append(number / 2 + 2)
        return self.expected[-1]

    def close(self):
        answers = [struct.unpack("<f", next(self.answers)[-4:])[0] for _ in self.expected]
        if answers != self.expected:
            raise harness.HarnessError(f"{self.expected} are answered with {answers}")
        super().close()


def ask(kind, server, model, first, count):
    """[(id, sent, answered)] of one client's requests, one after the other; times in ns."""
    client, found = kind(server, model), []
    for number in range(first, first + count):
        sent = time.monotonic_ns()
        value = client.ask(number)
        found.append((number, sent, time.monotonic_ns()))
        if value != (number / 4 + 3 if model == "ensemble" else number / 2 + 2):
            raise harness.HarnessError(f"{number} is answered with {value}")
    client.close()
    return found


def join(requests, logs):
    """[(request, id)]: those of a connection are those of the client whose times are around theirs, and nearest."""
    by_port, pairs = collections.defaultdict(list), []
    for request in sorted(requests, key=lambda r: r["start_ns"]):
        by_port[request["peer_port"]].append(request)
    fitting = []
    for port, of_port in by_port.items():
        for number, log in enumerate(logs):
            both = list(zip(of_port, log or ()))
            if log and len(log) == len(of_port) and all(e[1] <= r["start_ns"] and r["end_ns"] <= e[2] + LATE_NS for r, e in both):
                fitting.append((sum(r["start_ns"] - e[1] for r, e in both), port, number))
    for _, port, number in sorted(fitting):
        if port in by_port and logs[number]:
            pairs += [(r, e[0]) for r, e in zip(by_port.pop(port), logs[number])]
            logs[number] = None
    return pairs


def in_order(request, traces):
    """Whether a request's times lie between those of its steps in the server's own trace."""
    times = [request["runs"][0]["start_ns"]]
    for own, trace in zip(request["batches"], traces):
        # A step that follows is handed over before the batch of the step before ends.
        times += [trace["REQUEST_START"], own["queued_ns"], trace["QUEUE_START"], own["start_ns"], trace["COMPUTE_START"]]
    return len(request["batches"]) == len(traces) and times == sorted(times) and \
        all(trace["COMPUTE_END"] <= own["end_ns"] for own, trace in zip(request["batches"], traces))


class Triton(test_lifecycle.Lifecycle):
    packages = WHEEL  # a directory with the wheel

    def capture(self, kinds, model, level, kind_of_server=Server):
        """What was captured while clients asked: (the capture's JSON, requests, clients' log, what the statistics grew by, truth)."""
        daemon = self.start(harness.Daemon)
        directory = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        server = self.start(kind_of_server, self.packages, directory)
        target = harness.wait_target(daemon, server.pid)
        (info,) = self.packages.glob("nvidia_pytriton-*.dist-info")
        release = SERVERS[info.name.removesuffix(".dist-info").partition("-")[2]]
        self.assertEqual((target["runtime"], target["version"]), ("Triton", release))
        FIGURES["server"] = release
        harness.read_files(daemon, server)
        for child in server.children():
            self.assertIn("Triton Python stub", harness.wait_target(daemon, child)["runtime"])
        for kind in kinds:
            ask(kind, server, model, 100_000, 4)
        path, self.logdir = directory / "requests.ndjson", directory / "log"
        composing = ["batched", "plain"] if model == "ensemble" else [model]
        before = [server.counts(name) for name in composing]
        with concurrent.futures.ThreadPoolExecutor(2 * CLIENTS + 1) as pool:
            capture = pool.submit(harness.ctl_capture, daemon, [server.pid], self.logdir, "--requests", path, "--level", level,
                                  "--requests-count", CLIENTS * sum(kind.requests for kind in kinds), duration=f"{WINDOW_S}s")
            self.wait_window(daemon)
            logs = [log.result() for log in [pool.submit(ask, kind, server, model, 1 + i * 1000, REQUESTS)
                                             for i, kind in enumerate(kinds * CLIENTS)]]
            command = capture.result()
        self.assertEqual(command.status, 0, command.stderr)
        after = [server.counts(name) for name in composing]
        self.assertEqual(server.stop(), 0)
        daemon.stop()
        requests = [json.loads(line) for line in path.read_text().splitlines()]
        return command.json, requests, logs, (before, after), server.truth(), server.trace()

    def compare_once(self, kinds, model, level):
        summary, requests, logs, (before, after), truth, trace = self.capture(kinds, model, level)
        self.assertEqual([w for w in summary["warnings"] if "not shown" in w or "lost" in w.lower()], [])
        pairs = join(requests, logs)
        wrong, without, numbers = 0, 0, collections.defaultdict(set)
        queue_ns = compute_ns = 0
        released_ns = []
        for request, number in pairs:
            self.assertEqual(request["path"], PATHS[request["protocol"]].format(model))
            self.assertEqual(request["model"], model if request["batches"] or request["protocol"] == "http1" else None)
            without += not request["batches"]
            wrong += bool(request["batches"]) and (request["attribution"] != "exact" or len(request["batches"]) != len(truth[number]))
            for own, (_, batch, tasks, begin, end) in zip(request["batches"], truth[number]):
                numbers[batch].add(own["batch"])
                wrong += not (own["start_ns"] <= begin and end <= own["end_ns"] and own["tasks"] == tasks)
                queue_ns += own["start_ns"] - own["queued_ns"]
                # The statistics end with the backend's work; the call returns when it has released its requests.
                compute_ns += end - own["start_ns"]
                released_ns.append(own["end_ns"] - end)
            if request["batches"]:
                wrong += not in_order(request, trace[number])
        wrong += sum(len(captured) != 1 for captured in numbers.values())
        grew = lambda *keys: sum(self.value(a, keys) - self.value(b, keys) for a, b in zip(after, before))
        n, executions = grew("inference_count"), grew("execution_count")
        own_queue = grew("inference_stats", "queue", "ns")
        own_compute = sum(grew("inference_stats", f"compute_{part}", "ns") for part in ("input", "infer", "output"))
        names = " and ".join(kind.__name__ for kind in kinds)
        print(f"     {names}, {model}, level {level}: {len(pairs)} requests of {n // len(after)} in {len(numbers)} batches of {executions}, {wrong} wrong, {without} "
              f"without; queue {queue_ns / n / 1e3:.1f} us (its own: {own_queue / n / 1e3:.1f}), compute {compute_ns / n / 1e3:.1f} us ({own_compute / n / 1e3:.1f}), "
              f"then {statistics.median(released_ns or [0]) / 1e3:.1f} us (median)")
        FIGURES.update(requests=len(pairs), right=len(pairs) - without - wrong, wrong=wrong, batches=len(numbers), executions=executions)
        self.assertEqual((len(pairs) * len(after), wrong), (n, 0))
        # An answer that gRPC's library leaves to another thread to pass shows no run.
        self.assertLessEqual(without, UNKNOWN * n if GrpcClient in kinds else 0)
        if not without:
            self.assertEqual(len(numbers), executions)
            for mine, own in ((queue_ns, own_queue), (compute_ns, own_compute)):
                if abs(mine - own) > max(SHARE * own, EACH_NS * n):
                    raise harness.Disturbed(f"{mine} ns are not {own} ns")
            if statistics.median(released_ns) > RELEASED_NS:
                raise harness.Disturbed(f"requests are released within {statistics.median(released_ns)} ns")
        return requests

    def compare(self, kinds, model, level):
        return harness.retry_times(3, lambda _: self.compare_once(kinds, model, level))

    @staticmethod
    def value(counts, keys):
        for key in keys:
            counts = counts[key]
        return counts

    def test_requests_are_in_the_batches_that_the_backend_executed(self):
        self.compare([HttpClient], "batched", 2)

    def test_requests_over_grpc_are_in_their_batches(self):
        self.compare([GrpcClient], "batched", 2)

    def test_steps_of_an_ensemble_are_the_requests_batches(self):
        requests = self.compare([HttpClient, GrpcClient], "ensemble", 2)
        phases = {phase: sum(r["phases"][phase] for r in requests) / len(requests) / 1e3 for phase in requests[0]["phases"]}
        print("     ", {phase: round(us) for phase, us in phases.items() if us >= 0.5})
        # Nothing is missing from the answer back to the first step.
        self.assertLess(phases["unknown"], 0.01 * sum(phases.values()))

    def test_without_batching_each_request_is_executed_alone(self):
        self.compare([HttpClient, GrpcClient], "plain", 1)

    def streamed(self, kind, model):
        """How many runs the requests of streams have. Every batch of a request is one of what a client asked in its stream."""
        summary, requests, logs, _, truth, _ = self.capture([kind], model, 2)
        self.assertEqual([w for w in summary["warnings"] if "not shown" in w or "lost" in w.lower()], [])
        self.assertEqual([r["path"] for r in requests], ["/inference.GRPCInferenceService/ModelStreamInfer"] * CLIENTS)
        for request in requests:
            self.assertEqual((request["attribution"], len(request["batches"])), ("exact" if request["runs"] else "none", len(request["runs"])))
            self.assertEqual(sum(request["phases"].values()), request["latency_ns"])
        batches = [[batch for number, _, _ in log for batch in truth[number]] for log in logs]
        fits = [{client for client, of_client in enumerate(batches) if all(any(
            own["start_ns"] <= begin and end <= own["end_ns"] and own["tasks"] == tasks for _, _, tasks, begin, end in of_client)
            for own in request["batches"])} for request in requests]
        self.assertTrue(all(fits), fits)
        n = sum(len(r["runs"]) for r in requests)
        # Clients whose requests are in the same batches are distinguished only where each has its own.
        if n and "dynamic_batching" not in MODELS[model]:
            of_runs = [client for clients, request in zip(fits, requests) if request["batches"] for client in clients]
            self.assertEqual(len(of_runs), sum(bool(request["batches"]) for request in requests), fits)
            self.assertEqual(len(of_runs), len(set(of_runs)), fits)
        print(f"     {kind.__name__}, {model}: {n} runs of {CLIENTS * REQUESTS} have their stream, 0 wrong")
        return n

    def test_messages_of_a_stream_are_runs_of_its_request(self):
        for model in ("batched", "plain"):
            self.assertEqual(self.streamed(StreamClient, model), CLIENTS * REQUESTS)

    def test_messages_that_are_sent_at_once_are_runs_of_no_other_request(self):
        # An answer that waits for the one before is passed by a thread that shows no run.
        for model in ("batched", "plain"):
            self.assertGreater(self.streamed(HastyClient, model), 0)

    def test_a_message_of_a_stream_that_has_several_answers_is_one_run(self):
        n = self.streamed(StreamClient, "decoupled")
        self.assertEqual(n, CLIENTS * REQUESTS if FIGURES["server"] >= "2.49" else 0)

    def test_batches_of_the_python_backend_are_executed_by_its_processes(self):
        summary, requests, logs, (before, after), truth, _ = self.capture([HttpClient, GrpcClient], "scripted", 2, PythonServer)
        self.assertEqual([w for w in summary["warnings"] if "lost" in w.lower()], [])
        xspace = harness.XSpace(harness.xspace_files(self.logdir)[0])
        first = xspace.plane_stats["Task Environment"]["profile_start_time"] - (time.time_ns() - time.monotonic_ns())
        named = lambda name: [(line, first + e.start_ps // 1000, first + (e.start_ps + e.duration_ps) // 1000, e.stats)
                              for line, events in xspace.lines().items() for e in events if e.name == name]
        # Of the event in a batch that has the arrows to its pieces.
        producers = {begin: stats["_p"] for _, begin, _, stats in named("process")}
        # The trace has Unix time, whose distance is not known to the nanosecond now.
        nearest = lambda ns: min(producers, key=lambda begin: abs(begin - ns))
        late = statistics.median(nearest(batch["start_ns"]) - batch["start_ns"] for request in requests for batch in request["batches"])
        pieces = [(line, begin - late, end - late, stats) for line, begin, end, stats in named("Stub::ProcessRequests")]
        right = wrong = 0
        executed = set()
        for request, number in join(requests, logs):
            (batch,), ((process, of_process, tasks, begin, end),) = request["batches"], truth[number]
            ((_, piece_begin, _, stats),) = [p for p in pieces if p[0].endswith(f"/{process}") and p[1] <= begin and end <= p[2]]
            producer = nearest(batch["start_ns"] + late)
            # The process may notice later than its server that the batch is done.
            fits = abs(producer - late - batch["start_ns"]) < 1000 and batch["start_ns"] <= piece_begin and end <= batch["end_ns"] and \
                batch["tasks"] == tasks and producers[producer] == stats.get("_c")
            right, wrong = right + fits, wrong + (not fits)
            executed.add((process, of_process))
        grew = after[0]["execution_count"] - before[0]["execution_count"]
        ops = [(line, begin - late) for line, begin, _, _ in named("mul_Tensor:_mul_Tensor")]
        inside = sum(any(p[0] == line and p[1] <= begin <= p[2] for p in pieces) for line, begin in ops)
        print(f"     {right} of {len(requests)} requests have the work of their process, {wrong} wrong; {len(executed)} batches of {grew} by its statistics, in "
              f"{len({process for process, _ in executed})} processes; {inside} of {len(ops)} operations in them")
        FIGURES.update(requests=right + wrong, right=right, wrong=wrong, batches=len(executed), executions=grew)
        self.assertEqual((right, wrong, len(executed)), (2 * CLIENTS * REQUESTS, 0, grew))
        self.assertEqual(len({process for process, _ in executed}), 2)
        self.assertEqual((inside, len(ops)), (len(ops), 2 * CLIENTS * REQUESTS))

    def test_a_capture_of_the_server_is_also_of_its_processes_and_goes_on_when_one_ends(self):
        daemon, server = self.start(harness.Daemon), self.start(PythonServer, self.packages, self.directory)
        address = harness.wait_target(daemon, server.pid)["address"]
        children = server.children()
        for child in children:
            self.assertIn("Triton Python stub", harness.wait_target(daemon, child)["runtime"])
        harness.read_files(daemon, server)
        recording, again, ended = self.directory / "a.tfp", self.directory / "again", threading.Event()
        executed = lambda xspace: {name.rpartition("/")[2] for name, events in xspace.lines().items() for e in events
                                   if e.name == "Stub::ProcessRequests" and e.stats.get("_c")}

        def ask_on():
            """Without the process of its instance the server answers some requests with an error."""
            while not ended.is_set():
                with contextlib.suppress(KeyError):
                    ask(HttpClient, server, "scripted", 1, 10)

        with concurrent.futures.ThreadPoolExecutor() as pool:
            clients = [pool.submit(ask_on) for _ in range(4)]
            try:
                at_port = harness.response_xspace(harness.profile(address, duration_ms=500, level=1))
                capture = pool.submit(harness.ctl_capture, daemon, [server.pid], self.directory / "log", "--record", recording, duration="2s")
                self.wait_window(daemon)
                os.kill(children[0], signal.SIGKILL)
                command = capture.result()
            finally:
                ended.set()
            for client in clients:
                client.result()
        # It would wait for the process that it lacks.
        server.send(signal.SIGKILL)
        self.assertEqual(at_port.errors, [])
        self.assertEqual(executed(at_port), set(map(str, children)))
        self.assertEqual(command.status, 0, command.stderr)
        self.assertTrue(any(f"Process {children[0]} " in w and "ended" in w for w in command.json["warnings"]), command.json["warnings"])
        shown = harness.xspace_files(self.directory / "log")[0]
        self.assertIn(str(children[1]), executed(harness.XSpace(shown)))
        replay = harness.run(harness.OUT / "tfprofctl", "replay", recording, "-o", again, "--json")
        self.assertEqual(replay.status, 0, replay.stderr)
        self.assertEqual(harness.xspace_files(again)[0].read_bytes(), shown.read_bytes())

    def test_answers_stay_right_while_captures_come_and_go(self):
        before = harness.bpf_objects()
        daemon = self.start(harness.Daemon)
        # With its trace, and over gRPC, this release can end by itself (docs/limits.md).
        server = self.start(Server, self.packages, self.directory, 0, False)
        address = harness.wait_target(daemon, server.pid)["address"]
        ended = threading.Event()

        def ask_on(kind):
            """How many were answered: each as it must be."""
            count = 0
            while not ended.is_set():
                count += len(ask(kind, server, "batched", 1, 50))
            return count

        with concurrent.futures.ThreadPoolExecutor() as pool:
            clients = [pool.submit(ask_on, HttpClient) for _ in range(4)]
            try:
                for number in range(CYCLES):
                    xspace = harness.response_xspace(harness.profile(address, duration_ms=20, level=1 + number % 3))
                    self.assertEqual(xspace.errors, [])
            finally:
                ended.set()
            answers = sum(client.result() for client in clients)
        self.assertEqual(harness.leftovers(before, 10, daemon), [])
        self.assertEqual(server.stop(), 0)
        print(f"     {CYCLES} captures, {answers} answers, 0 wrong")
        FIGURES.update(answers=answers, different=0)
        self.assertGreater(answers, 10 * CYCLES)


if __name__ == "__main__":
    harness.main()
