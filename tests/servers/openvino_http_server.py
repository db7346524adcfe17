# SPDX-License-Identifier: Apache-2.0
"""A Python model server for tests: a model of OpenVINO behind a REST API (rest.py). WAY is infer, or start_async: on a thread of the runtime.

usage: openvino_http_server.py WAY TRUTH-FILE"""
import sys
import threading

import numpy
import openvino

import openvino_model
import rest


def load():
    model = openvino.Core().compile_model(openvino_model.half_plus_two(), "CPU")
    local = threading.local()

    def predict(instances):
        if not hasattr(local, "request"):
            local.request = model.create_infer_request()
        value = {0: numpy.array(instances, numpy.float32)}
        if sys.argv[1] == "start_async":
            local.request.start_async(value)
            local.request.wait()
        else:
            local.request.infer(value)
        return local.request.get_output_tensor().data.tolist()

    return predict


rest.serve(load, sys.argv[2])
