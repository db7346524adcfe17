# SPDX-License-Identifier: Apache-2.0
"""A Python model server for tests: OpenVINO behind a REST API (rest.py). WAY selects the thread that runs the model: "infer" the
request's own, "start_async" one thread of the runtime for all connections, "each" a thread of the runtime for each connection.

usage: openvino_http_server.py WAY TRUTH-FILE"""
import pathlib
import sys
import threading

import numpy
import openvino

import openvino_model
import rest

WAY = sys.argv[1]
WARM_RUNS, WARM_VALUES = 20, 1 << 20
lock = threading.Lock()


def cpu_ns():
    """CPU time of each thread, in ns."""
    return {int(path.parent.name): int(path.read_text().split()[0]) for path in pathlib.Path("/proc/self/task").glob("*/schedstat")}


def load():
    core = openvino.Core()
    value = {0: numpy.ones(WARM_VALUES, numpy.float32)}

    def compiled():
        """A model with one stream, and the id of the stream's thread: the thread that used the most CPU time in the warm-up."""
        model = core.compile_model(openvino_model.half_plus_two(), "CPU", {"NUM_STREAMS": "1", "INFERENCE_NUM_THREADS": "1"})
        request = model.create_infer_request()
        before = cpu_ns()
        for _ in range(WARM_RUNS):
            request.start_async(value)
            request.wait()
        return model, max(((ns - before.get(tid, 0), tid) for tid, ns in cpu_ns().items() if tid != threading.get_native_id()))[1]

    shared = compiled() if WAY != "each" else None
    local = threading.local()

    def predict(instances):
        if not hasattr(local, "request"):
            with lock:
                model, thread = shared or compiled()
            local.request = model.create_infer_request()
            if WAY != "infer":
                rest.ran.thread = thread
        value = {0: numpy.array(instances, numpy.float32)}
        if WAY == "infer":
            local.request.infer(value)
        else:
            local.request.start_async(value)
            local.request.wait()
        return local.request.get_output_tensor().data.tolist()

    return predict


rest.serve(load, sys.argv[2])
