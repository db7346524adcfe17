#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Python model server for tests: tensorflow.serving.PredictionService/Predict over gRPC on 127.0.0.1, one event loop (grpc.aio) that hands
the models' runs to a pool of threads.

Serves MODEL-DIRECTORY/VERSION (the highest) under the directory's name until SIGTERM or SIGINT. Prints
"listening on PORT" and "ready"; with --tls as grpc_server.py.
"""
import argparse
import asyncio
import concurrent.futures
import threading
import time

from grpc_server import add_ports, add_tls, note_served, response_of
from serving import Truth, add_arguments, load_models, run_until_signal, tf
import grpc
from tensorflow_serving.apis import prediction_service_pb2_grpc


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, models, truth):
        self.models = models
        self.truth = truth

    def run(self, model, request):
        """On a thread of the pool."""
        read_ns = time.monotonic_ns()
        outputs, run = model.run(**{name: tf.constant(tf.make_ndarray(proto)) for name, proto in request.inputs.items()})
        return outputs, run | {"read_ns": read_ns}

    async def Predict(self, request, context):
        model = self.models.get(request.model_spec.name)
        if model is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no model named {request.model_spec.name!r}")
        outputs, run = await asyncio.to_thread(self.run, model, request)
        if self.truth:
            note_served(self.truth, context, **run)
        return response_of(request, model, outputs)


async def serve(options, models, truth, ready):
    asyncio.get_running_loop().set_default_executor(concurrent.futures.ThreadPoolExecutor(options.workers))
    stop = asyncio.Event()
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(PredictionService(models, truth), server)
    port = add_ports(server, options)
    await server.start()
    ready.set_result((asyncio.get_running_loop(), stop, port))
    await stop.wait()
    await server.stop(5)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--workers", type=int, default=4, metavar="N", help="threads that run models (4)")
    add_tls(parser)
    options = parser.parse_args()
    models = load_models("grpc_aio_server", options)
    truth = Truth(options.truth) if options.truth else None
    ready = concurrent.futures.Future()
    thread = threading.Thread(target=lambda: asyncio.run(serve(options, models, truth, ready)), name="grpc_loop")
    thread.start()
    loop, stop, port = ready.result()
    run_until_signal(port)
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    if truth:
        truth.write()


if __name__ == "__main__":
    main()
