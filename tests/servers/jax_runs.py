# SPDX-License-Identifier: Apache-2.0
"""Runs programs in JAX in two threads under the runtime's own profiler until SIGTERM; then writes what that saw to DIRECTORY.

usage: jax_runs.py DIRECTORY"""
import signal
import sys
import threading
import time

import jax

import jax_model

PAUSE_S = 0.003

going = threading.Event()


def serve(function, arguments):
    while not going.is_set():
        function(*arguments).block_until_ready()
        time.sleep(PAUSE_S)


def main():
    signal.signal(signal.SIGTERM, lambda number, frame: going.set())
    programs = [(jax.jit(jax_model.layers), jax_model.inputs(4)), (jax.jit(jax_model.loop), jax_model.inputs(1))]
    for function, arguments in programs:
        function(*arguments).block_until_ready()
    jax.profiler.start_trace(sys.argv[1])
    threads = [threading.Thread(target=serve, args=program) for program in programs]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    for thread in threads:
        thread.join()
    jax.profiler.stop_trace()


main()
