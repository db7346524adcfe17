# SPDX-License-Identifier: Apache-2.0
"""Runs models in OpenVINO in three threads until SIGTERM, with its own profile of nodes (PERF_COUNT): infer() on the caller's thread, infer() on a
stream's thread, start_async(). Then writes {model, way, thread, runs, profiles} of each thread to FILE, as JSON. A run is [begin, end] in ns. A
profile is [time in ns, number of runs so far, nodes]; a node that was executed is [name, type, mean time in us].

usage: openvino_runs.py FILE"""
import json
import signal
import sys
import threading
import time

import openvino

import openvino_model

PAUSE_S = 0.003
RUNS_OF_PROFILE = 20

going = threading.Event()


def profile(request):
    return [(node.node_name, node.node_type, node.real_time.total_seconds() * 1e6) for node in request.get_profiling_info()
            if node.status == openvino.ProfilingInfo.Status.EXECUTED]


def serve(name, request, value, way, result):
    runs, profiles = [], []
    while not going.is_set():
        begin = time.time_ns()
        if way == "start_async":
            request.start_async({0: value})
            request.wait()
        else:
            request.infer({0: value})
        runs.append((begin, time.time_ns()))
        # + 1: the warm-up's run.
        if len(runs) % RUNS_OF_PROFILE == 0:
            profiles.append((time.time_ns(), len(runs) + 1, profile(request)))
        time.sleep(PAUSE_S)
    result.append({"model": name, "way": way, "thread": threading.get_native_id(), "runs": runs, "profiles": profiles})


def main():
    signal.signal(signal.SIGTERM, lambda number, frame: going.set())
    core, result, threads = openvino.Core(), [], []
    # Shapes large enough that each node takes at least 1 us: the profile counts shorter ones as not executed.
    for name, shape, way, streams in (("layer", (64, 64), "infer", 1), ("rows", (200, 64), "infer", 2), ("image", (1, 3, 32, 32), "start_async", 1)):
        request = core.compile_model(getattr(openvino_model, name)(), "CPU", {"PERF_COUNT": "YES", "NUM_STREAMS": str(streams)}).create_infer_request()
        value = openvino_model.values(*shape)
        request.infer({0: value})
        threads.append(threading.Thread(target=serve, args=(name, request, value, way, result)))
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    for thread in threads:
        thread.join()
    with open(sys.argv[1], "w") as file:
        json.dump(result, file)


main()
