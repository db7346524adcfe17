# SPDX-License-Identifier: Apache-2.0
"""Runs models in ONNX Runtime, each in a thread and a session of its own under the runtime's own profiler, until SIGTERM. Then it prints
for each session its thread, when its profiler began (Unix, ns), and what that wrote.

usage: onnx_runs.py LAYERS PREFIX [reload | parallel]

With "reload" there is one thread, which loads a model, runs it a few times and unloads it, again and again; the names of each differ.
With "parallel" the operations of a model run on several threads.
"""
import signal
import sys
import threading
import time

import numpy
import onnxruntime

import onnx_model

PAUSE_S = 0.002
RUNS_OF_EACH = 10

going = threading.Event()


def serve(model, prefix, runs=None, parallel=False):
    """Loads the model and runs it so many times, or until SIGTERM."""
    options = onnxruntime.SessionOptions()
    if parallel:
        options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
        options.inter_op_num_threads = 3
    options.intra_op_num_threads = 1
    options.enable_profiling = True
    options.profile_file_prefix = prefix
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    inputs = {"x": numpy.ones((1, onnx_model.WIDTH), numpy.float32)}
    while runs != 0 and not going.is_set():
        session.run(None, inputs)
        time.sleep(PAUSE_S)
        runs = runs and runs - 1
    sys.stdout.write(f"session {threading.get_native_id()} {session.get_profiling_start_time_ns()} {session.end_profiling()}\n")


def reload(layers, prefix):
    number = 0
    while not going.is_set():
        serve(onnx_model.layered(layers, f"model_{number}"), f"{prefix}_{number}", RUNS_OF_EACH)
        number += 1


def main():
    layers, prefix = int(sys.argv[1]), sys.argv[2]
    signal.signal(signal.SIGTERM, lambda number, frame: going.set())
    if "reload" in sys.argv:
        threads = [threading.Thread(target=reload, args=(layers, prefix))]
    elif "parallel" in sys.argv:
        threads = [threading.Thread(target=serve, args=(onnx_model.wide(layers), prefix, None, True))]
    else:
        models = {"layers": onnx_model.layered(layers, "/layer"), "control": onnx_model.control()}
        threads = [threading.Thread(target=serve, args=(model, f"{prefix}_{name}")) for name, model in models.items()]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    for thread in threads:
        thread.join()


main()
