# SPDX-License-Identifier: Apache-2.0
"""Runs a small model as often as it can, on one thread, when a line of COMMANDS states how and for how many seconds: "plain 1", or "profiled 1", under
the runtime's own profiler. Then it prints the runs, and the CPU time of one in microseconds. A first line, "ready", comes when the model is loaded.

usage: ops_loop.py RUNTIME COMMANDS DIRECTORY
RUNTIME: onnx, torch, jax or openvino; COMMANDS is a FIFO; what a profiler writes goes to DIRECTORY"""
import contextlib
import sys
import time

WARM_UP, AT_ONCE = 50, 10
LAYERS = 16


def onnx(directory, profiled):
    import numpy
    import onnxruntime

    import onnx_model

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.enable_profiling = profiled
    options.profile_file_prefix = f"{directory}/onnx"
    session = onnxruntime.InferenceSession(onnx_model.layered(LAYERS), options, providers=["CPUExecutionProvider"])
    inputs = {"x": numpy.ones((1, onnx_model.WIDTH), numpy.float32)}
    yield lambda: session.run(None, inputs)
    if profiled:
        session.end_profiling()


def torch(directory, profiled):
    import torch
    from torch.autograd import profiler_legacy

    torch.set_num_threads(1)
    x = torch.ones(1, 64)

    def run():
        with torch.no_grad():
            y = x
            for _ in range(LAYERS):
                y = torch.relu(y) + 1
    if profiled:
        torch.autograd._enable_profiler_legacy(profiler_legacy.profile().config())
    yield run
    if profiled:
        torch.autograd._disable_profiler_legacy()


def jax(directory, profiled):
    import jax

    import jax_model

    function, arguments = jax.jit(jax_model.layers), [jax.device_put(a) for a in jax_model.inputs(LAYERS)]
    function(*arguments).block_until_ready()
    if profiled:
        jax.profiler.start_trace(directory)
    yield lambda: function(*arguments).block_until_ready()
    if profiled:
        jax.profiler.stop_trace()


def openvino(directory, profiled):
    import openvino

    import openvino_model

    options = {"PERF_COUNT": "YES" if profiled else "NO", "NUM_STREAMS": "1", "INFERENCE_NUM_THREADS": "1"}
    request = openvino.Core().compile_model(openvino_model.layer(), "CPU", options).create_infer_request()
    value = openvino_model.values(openvino_model.WIDTH, openvino_model.WIDTH)
    yield lambda: request.infer({0: value})
    if profiled:
        request.get_profiling_info()


def measure(run, seconds):
    for _ in range(WARM_UP):
        run()
    runs, begin, cpu = 0, time.monotonic(), time.process_time()
    while time.monotonic() - begin < seconds:
        for _ in range(AT_ONCE):
            run()
        runs += AT_ONCE
    print(f"{runs} runs of {(time.process_time() - cpu) * 1e6 / runs:.3f} us", flush=True)


def main():
    model = contextlib.contextmanager({"onnx": onnx, "torch": torch, "jax": jax, "openvino": openvino}[sys.argv[1]])
    with model(sys.argv[3], False) as plain:
        plain()
        print("ready", flush=True)
        with open(sys.argv[2]) as commands:
            for line in commands:
                how, seconds = line.split()
                if how == "plain":
                    measure(plain, float(seconds))
                    continue
                with model(sys.argv[3], True) as profiled:
                    measure(profiled, float(seconds))


main()
