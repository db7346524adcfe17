#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends predict requests to a test server and checks the answers; prints one JSON object.

Requests of a client follow one another on one connection; "started" on standard error means that each client has its first answer,
SIGTERM ends them before their time. half_plus_two's values are compared; of the others, whose last op is a softmax, it is checked
that each row sums to one.
"""
import argparse
import array
import functools
import http.client
import importlib.util
import itertools
import json
import math
import signal
import sys
import threading
import time
import types

TIMEOUT_S = 30
WIDTH = 64


def inputs_of(model, rows):
    if model == "half_plus_two":
        return [float(i) for i in range(rows)]
    return [[(i + j) % 7 / 7 for j in range(WIDTH)] for i in range(rows)]


def right(model, inputs, outputs):
    if len(outputs) != len(inputs):
        return False
    if model == "half_plus_two":
        return all(abs(y - (x / 2 + 2)) < 1e-3 for x, y in zip(inputs, outputs))
    return all(math.isclose(sum(row), 1, rel_tol=1e-3) for row in outputs)


class RestClient:
    def __init__(self, url, model, inputs):
        self.connection = http.client.HTTPConnection(url.removeprefix("http://").rstrip("/"), timeout=TIMEOUT_S)
        self.path = f"/v1/models/{model}:predict"
        self.body = json.dumps({"instances": inputs}).encode()

    def request(self):
        """The answer as bytes; values() gives what they hold."""
        self.connection.request("POST", self.path, self.body)
        response = self.connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise OSError(f"status {response.status}: {body[:200]!r}")
        return body

    @staticmethod
    def values(answer):
        return json.loads(answer)["predictions"]

    def close(self):
        self.connection.close()


@functools.cache
def predict_messages():
    """predict_pb2, by TensorFlow's files alone: to import all of it takes seconds."""
    package = types.ModuleType("tensorflow")
    package.__path__ = importlib.util.find_spec("tensorflow").submodule_search_locations
    sys.modules["tensorflow"] = package
    from tensorflow_serving.apis import predict_pb2
    return predict_pb2


class GrpcClient:
    DT_FLOAT = 1

    def __init__(self, address, model, inputs):
        import grpc

        messages = predict_messages()
        self.response = messages.PredictResponse
        request = messages.PredictRequest()
        request.model_spec.name = model
        tensor, nested = request.inputs["x"], isinstance(inputs[0], list)
        tensor.dtype = self.DT_FLOAT
        for size in (len(inputs), *([len(inputs[0])] if nested else ())):
            tensor.tensor_shape.dim.add(size=size)
        tensor.tensor_content = array.array("f", itertools.chain(*inputs) if nested else inputs).tobytes()
        self.body = request.SerializeToString()
        # Bytes in and out: parsing is left to values(), for answers that differ from the last.
        self.channel = grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1),
                                                              ("grpc.enable_http_proxy", 0)])
        self.call = self.channel.unary_unary("/tensorflow.serving.PredictionService/Predict")

    def request(self):
        return self.call(self.body, timeout=TIMEOUT_S)

    def values(self, answer):
        tensor = self.response.FromString(answer).outputs["y"]
        values = array.array("f", tensor.tensor_content).tolist() or list(tensor.float_val)
        rows, *columns = (dim.size for dim in tensor.tensor_shape.dim)
        if len(values) != rows * math.prod(columns):
            raise ValueError(f"{len(values)} values for {rows} rows")
        return [values[i:i + columns[0]] for i in range(0, len(values), columns[0])] if columns else values

    def close(self):
        self.channel.close()


class Load:
    def __init__(self, options):
        self.options = options
        self.inputs = inputs_of(options.model, options.rows)
        self.lock = threading.Lock()
        self.left = options.count
        self.stopped = False
        self.latencies = []
        self.errors = 0
        self.first_error = None
        self.waiting = options.clients

    def take(self):
        """Whether another request is to be sent."""
        if self.stopped:
            return False
        if self.left is None:
            return time.monotonic() < self.until
        with self.lock:
            self.left -= 1
            return self.left >= 0

    def note_first(self):
        with self.lock:
            self.waiting -= 1
            if not self.waiting:
                print("started", file=sys.stderr, flush=True)

    def run_client(self, client):
        latencies, errors, good, is_first = [], 0, None, True
        while self.take():
            start = time.perf_counter()
            try:
                answer = client.request()
                # The same input gives the same bytes: only an answer that was not seen before is parsed.
                if answer != good:
                    if not right(self.options.model, self.inputs, client.values(answer)):
                        raise ValueError(f"wrong answer: {answer[:200]!r}")
                    good = answer
                latencies.append(time.perf_counter() - start)
            except Exception as e:
                errors += 1
                self.first_error = self.first_error or f"{type(e).__name__}: {e}"
                if errors > 100:
                    break
            if is_first:
                self.note_first()
                is_first = False
        if is_first:
            self.note_first()
        client.close()
        with self.lock:
            self.latencies += latencies
            self.errors += errors

    def stop(self, *_):
        self.stopped = True

    def run(self):
        make, address = (RestClient, self.options.rest) if self.options.rest else (GrpcClient, self.options.grpc)
        clients = [make(address, self.options.model, self.inputs) for _ in range(self.options.clients)]
        start = time.monotonic()
        self.until = start + (self.options.duration or 0)
        threads = [threading.Thread(target=self.run_client, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.result(time.monotonic() - start)

    def result(self, elapsed):
        ordered = sorted(self.latencies)

        def percentile(p):
            return round(ordered[min(len(ordered) - 1, int(len(ordered) * p))] * 1e3, 3) if ordered else None

        result = {"model": self.options.model, "clients": self.options.clients, "requests": len(ordered),
                  "errors": self.errors, "seconds": round(elapsed, 3),
                  "requests_per_s": round(len(ordered) / elapsed, 1), "p50_ms": percentile(0.5),
                  "p99_ms": percentile(0.99)}
        if self.first_error:
            result["first_error"] = self.first_error
        return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--rest", metavar="URL", help="http://HOST:PORT")
    where.add_argument("--grpc", metavar="HOST:PORT")
    parser.add_argument("--model", default="half_plus_two", choices=["half_plus_two", "layered", "compiled", "pipeline", "encoder"])
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--rows", type=int, default=3, help="instances in one request")
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--duration", type=float, metavar="S")
    amount.add_argument("--count", type=int, metavar="N")
    options = parser.parse_args()
    if options.count is None and options.duration is None:
        options.duration = 5.0
    load = Load(options)
    signal.signal(signal.SIGTERM, load.stop)
    result = load.run()
    print(json.dumps(result))
    return 1 if result["errors"] or not result["requests"] else 0


if __name__ == "__main__":
    sys.exit(main())
