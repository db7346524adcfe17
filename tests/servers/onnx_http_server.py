#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Python model server for tests: one model of ONNX Runtime behind a REST API (rest.py).

usage: onnx_http_server.py MODEL-FILE TRUTH-FILE [WAY]
WAY: of rest.py"""
import sys

import numpy
import onnxruntime

import rest


def load():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
    return lambda instances: session.run(None, {"x": numpy.array(instances, numpy.float32)})[0].tolist()


rest.serve(load, *sys.argv[2:])
