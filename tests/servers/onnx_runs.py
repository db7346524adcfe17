# SPDX-License-Identifier: Apache-2.0
"""Runs a model in ONNX Runtime under its own profiler until SIGTERM, then prints where that wrote and when it began.

usage: onnx_runs.py LAYERS PREFIX"""
import signal
import sys
import time

import numpy
import onnxruntime

import onnx_model

PAUSE_S = 0.002

going = True


def stop(number, frame):
    global going
    going = False


def main():
    signal.signal(signal.SIGTERM, stop)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.enable_profiling = True
    options.profile_file_prefix = sys.argv[2]
    session = onnxruntime.InferenceSession(onnx_model.model(int(sys.argv[1])), options, providers=["CPUExecutionProvider"])
    inputs = {"x": numpy.ones((1, onnx_model.WIDTH), numpy.float32)}
    print("ready", flush=True)
    while going:
        session.run(None, inputs)
        time.sleep(PAUSE_S)
    print(session.get_profiling_start_time_ns(), session.end_profiling(), flush=True)


main()
