#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients of the gRPC test servers in Python, each with a connection of its own, and a log of what they know.

Prints "connected" when each of them has been answered --warm requests, and begins with SIGUSR1. Each of them sends --count requests, one after
the other: its n-th one of all is stream 2n - 1 of its connection. Writes a line for each to --log: client, stream, id, code, send_ns and
receive_ns (CLOCK_MONOTONIC).
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import signal
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
import grpc
import numpy
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc


class Client:
    def __init__(self, number, options):
        self.number, self.options, self.sent, self.log = number, options, 0, []
        where = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0), ("grpc.ssl_target_name_override", "localhost")]
        if options.certificate:
            credentials = grpc.ssl_channel_credentials(pathlib.Path(options.certificate).read_bytes())
            self.channel = grpc.secure_channel(f"127.0.0.1:{options.port}", credentials, where)
        else:
            self.channel = grpc.insecure_channel(f"127.0.0.1:{options.port}", where)
        self.stub = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        self.request = predict_pb2.PredictRequest()
        self.request.model_spec.name = options.model
        self.request.inputs["x"].CopyFrom(tf.make_tensor_proto(numpy.array([1.0, 2.0], numpy.float32)))

    def call(self):
        identity = self.options.id_base + self.number * 100_000 + self.sent
        self.sent += 1
        entry = {"client": self.number, "stream": 2 * self.sent - 1, "id": identity, "code": 0, "send_ns": time.monotonic_ns()}
        try:
            self.stub.Predict(self.request, timeout=self.options.timeout, metadata=[("x-request-id", str(identity))])
        except grpc.RpcError as error:
            entry["code"] = error.code().value[0]
        entry["receive_ns"] = time.monotonic_ns()
        return entry

    def warm(self):
        for _ in range(self.options.warm):
            self.call()

    def run(self):
        for _ in range(self.options.count):
            self.log.append(self.call())
            time.sleep(self.options.pause)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("--certificate", metavar="FILE", help="of the server: the connections are encrypted")
    parser.add_argument("--model", default="half_plus_two")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--count", type=int, default=100, help="requests of each client (100)")
    parser.add_argument("--warm", type=int, default=0, help="requests of each client before the others (0)")
    parser.add_argument("--pause", type=float, default=0, metavar="SECONDS", help="between a client's requests (0)")
    parser.add_argument("--timeout", type=float, default=60, metavar="SECONDS", help="then a request is aborted (60)")
    parser.add_argument("--id-base", type=int, default=1)
    parser.add_argument("--log", required=True, metavar="FILE")
    options = parser.parse_args()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    clients = [Client(number, options) for number in range(options.clients)]
    with concurrent.futures.ThreadPoolExecutor(options.clients) as pool:
        list(pool.map(Client.warm, clients))
        print("connected", flush=True)
        signal.sigwait({signal.SIGUSR1})
        list(pool.map(Client.run, clients))
    with open(options.log, "w") as out:
        for client in clients:
            client.channel.close()
            out.writelines(json.dumps(entry) + "\n" for entry in client.log)


if __name__ == "__main__":
    main()
