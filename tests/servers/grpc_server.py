#!/usr/bin/env python3
"""A Python model server for tests: tensorflow.serving.PredictionService/Predict over gRPC on 127.0.0.1, four threads.

Serves MODEL-DIRECTORY/VERSION (the highest) under the directory's name until SIGTERM or SIGINT. Prints
"listening on PORT" and "ready".
"""
import argparse
import concurrent.futures
import os
import signal
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

VALUES_MAX = 65536


class Model:
    def __init__(self, directory):
        versions = [name for name in os.listdir(directory) if name.isdigit()]
        if not versions:
            raise ValueError(f"{directory}: no version of a model there")
        self.version = max(map(int, versions))
        # The loaded object must outlive its functions.
        self.loaded = tf.saved_model.load(os.path.join(directory, str(self.version)))
        self.run = self.loaded.signatures["serving_default"]


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, models):
        self.models = models

    def Predict(self, request, context):
        model = self.models.get(request.model_spec.name)
        if model is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no model named {request.model_spec.name!r}")
        try:
            inputs = {name: tf.constant(tf.make_ndarray(proto)) for name, proto in request.inputs.items()}
            if any(value.shape.num_elements() > VALUES_MAX for value in inputs.values()):
                raise ValueError("the input is too large")
            outputs = model.run(**inputs)
        except (TypeError, ValueError, tf.errors.OpError) as e:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(e))
        response = predict_pb2.PredictResponse()
        response.model_spec.name = request.model_spec.name
        response.model_spec.version.value = model.version
        response.model_spec.signature_name = "serving_default"
        for name, value in outputs.items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(value.numpy()))
        return response


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--profiler-port", type=int, help="start TensorFlow's in-process profiler there")
    parser.add_argument("directories", nargs="+", metavar="MODEL-DIRECTORY")
    options = parser.parse_args()

    # TensorFlow's threads inherit this, so that only sigwait below takes them.
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    try:
        models = {os.path.basename(d.rstrip("/")): Model(d) for d in options.directories}
    except (OSError, ValueError) as e:
        sys.exit(f"grpc_server: {e}")
    if options.profiler_port:
        tf.profiler.experimental.server.start(options.profiler_port)

    pool = concurrent.futures.ThreadPoolExecutor(4, thread_name_prefix="grpc_worker")
    server = grpc.server(pool, options=[("grpc.so_reuseport", 0)])
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(PredictionService(models), server)
    try:
        port = server.add_insecure_port(f"127.0.0.1:{options.port}")
    except RuntimeError as e:
        sys.exit(f"grpc_server: {e}")
    server.start()
    print(f"listening on {port}\nready", flush=True)
    signal.sigwait(signals)
    server.stop(5).wait()


if __name__ == "__main__":
    main()
