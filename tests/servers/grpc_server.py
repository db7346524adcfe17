#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Python model server for tests: tensorflow.serving.PredictionService/Predict over gRPC on 127.0.0.1, a pool of threads.

Serves MODEL-DIRECTORY/VERSION (the highest) under the directory's name until SIGTERM or SIGINT. Prints
"listening on PORT" and "ready"; with --tls, that port is the encrypted one, and before it
"listening without encryption on PORT".
"""
import argparse
import concurrent.futures
import contextlib
import itertools
import pathlib
import sys
import time

from serving import Truth, VALUES_MAX, add_arguments, load_models, run_until_signal, tf
import grpc
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "include"))
import tfprof


def response_of(request, model, outputs):
    response = predict_pb2.PredictResponse()
    response.model_spec.name = request.model_spec.name
    response.model_spec.version.value = model.version
    response.model_spec.signature_name = "serving_default"
    for name, value in outputs.items():
        response.outputs[name].CopyFrom(tf.make_tensor_proto(value))
    return response


def note_served(truth, context, **run):
    """context: of the call; run: its times and its thread."""
    identity = dict(context.invocation_metadata()).get("x-request-id", 0)
    truth.add(id=int(identity), protocol="http2", peer_port=int(context.peer().rsplit(":", 1)[1]), **run)


def add_tls(parser):
    parser.add_argument("--tls", nargs=2, metavar=("CERTIFICATE", "KEY"), help="serve encrypted connections, too")


def add_ports(server, options):
    """The port that run_until_signal() prints."""
    port = server.add_insecure_port(f"127.0.0.1:{0 if options.tls else options.port}")
    if not options.tls:
        return port
    print(f"listening without encryption on {port}", flush=True)
    certificate, key = (pathlib.Path(name).read_bytes() for name in options.tls)
    return server.add_secure_port(f"127.0.0.1:{options.port}", grpc.ssl_server_credentials([(key, certificate)]))


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, models, truth, spans):
        self.models = models
        self.truth = truth
        self.numbers = itertools.count(1) if spans else None

    def span(self):
        if self.numbers is None:
            return contextlib.nullcontext()
        number = next(self.numbers)
        return tfprof.span("handle", request_id=number, step_num=number)

    def Predict(self, request, context):
        # grpc has parsed the request by now; what comes before is its own.
        read_ns = time.monotonic_ns()
        model = self.models.get(request.model_spec.name)
        if model is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no model named {request.model_spec.name!r}")
        try:
            inputs = {name: tf.constant(tf.make_ndarray(proto)) for name, proto in request.inputs.items()}
            if any(value.shape.num_elements() > VALUES_MAX for value in inputs.values()):
                raise ValueError("the input is too large")
            with self.span():
                outputs, run = model.run(**inputs)
        except (TypeError, ValueError, tf.errors.OpError) as e:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(e))
        if self.truth:
            note_served(self.truth, context, read_ns=read_ns, **run)
        return response_of(request, model, outputs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--workers", type=int, default=4, metavar="N", help="threads that serve requests (4)")
    parser.add_argument("--spans", action="store_true", help="mark what runs a model by include/tfprof.py, by a number of its own")
    add_tls(parser)
    options = parser.parse_args()
    models = load_models("grpc_server", options)
    truth = Truth(options.truth) if options.truth else None

    pool = concurrent.futures.ThreadPoolExecutor(options.workers, thread_name_prefix="grpc_worker")
    server = grpc.server(pool, options=[("grpc.so_reuseport", 0)])
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(PredictionService(models, truth, options.spans), server)
    try:
        port = add_ports(server, options)
    except RuntimeError as e:
        sys.exit(f"grpc_server: {e}")
    server.start()
    run_until_signal(port)
    server.stop(5).wait()
    if truth:
        truth.write()


if __name__ == "__main__":
    main()
