# SPDX-License-Identifier: Apache-2.0
"""What it costs to see the ops of runtimes other than TensorFlow, and what their own profilers cost."""
import concurrent.futures
import os
import re
import time

import client
import harness
import interval
import kernel
import settings
from result import Result

# Of one measurement; from when the probes are there to what is measured.
EACH_S, MARGIN_S = settings.SECONDS / 2, 0.2
RUNTIMES = {"ONNX Runtime": ("onnx", [harness.PYTHON], ""), "PyTorch": ("torch", ["/usr/bin/python3"], ""),
            "JAX": ("jax", ["env", "JAX_PLATFORMS=cpu", harness.PYTHON], harness.BUILD / "jax"),
            "OpenVINO": ("openvino", [harness.PYTHON], harness.BUILD / "openvino")}


class Loop(harness.Process):
    """A model of a runtime that runs when it is told to."""

    def __init__(self, directory, name, python, packages):
        fifo = directory / name
        os.mkfifo(fifo)
        super().__init__(name, [*python, harness.SERVERS / "ops_loop.py", name, fifo, directory], env={"PYTHONPATH": str(packages)})
        self.answers = 0
        self.wait_ready(lambda: self.line("ready"))
        self.commands = open(fifo, "w")

    def measure(self, how="plain"):
        """Runs per second, and the CPU time of a run in microseconds."""
        print(how, EACH_S, file=self.commands, flush=True)
        self.answers += 1
        answers = harness.wait_until(lambda: (found := re.findall(r"^(\d+) runs of ([\d.]+) us$", self.stdout(), re.MULTILINE))[self.answers - 1:] and found,
                                     harness.ANSWER_TIMEOUT_S, "the runs")
        return int(answers[-1][0]) / EACH_S, float(answers[-1][1])


def captured(daemon, loop):
    """What it measures in a capture of level 2, and the ops of a run."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(client.capture, daemon, loop.pid, (EACH_S + 5 * MARGIN_S) * 1000, 2)
        kernel.wait_attached(daemon)
        time.sleep(MARGIN_S)
        found, ended = loop.measure(), time.time_ns()
        answer = future.result()
    kernel.wait_detached(daemon)
    if answer.closed_ns < ended:
        raise client.TooBusy
    return *found, answer.result.ops / max(answer.result.runs, 1)


def measure(daemon, directory, name):
    """(results, raw figures) of a runtime."""
    loop = Loop(directory, *RUNTIMES[name])
    try:
        harness.wait_target(daemon, loop.pid)
        harness.read_files(daemon, loop)
        rounds = []
        for _ in range(settings.TIMES):
            rounds.append({"nothing": loop.measure(), "level 2": client.attempt(name, captured, daemon, loop), "its own": loop.measure("profiled")})
    finally:
        loop.stop()
    ops = rounds[-1]["level 2"][2]
    longer = {way: [(r[way][1] - r["nothing"][1]) / ops for r in rounds] for way in ("level 2", "its own")}
    more = {way: interval.more(*([r[how][1] for r in rounds] for how in (way, "nothing"))) for way in longer}
    shown = {"level 2": "level 2", "its own": "its own profiler"}
    pairs = {"interval": settings.USUAL["TIMES"]}
    return [Result(f"{name}: ops without a capture", "1/s", [r["nothing"][0] * ops for r in rounds]),
            *(Result(f"{name}, {shown[way]}: CPU time of an op longer by", "us", longer[way], **pairs) for way in longer),
            *(Result(f"{name}, {shown[way]}: CPU time of a run longer by", "%", more[way], **pairs) for way in longer)], {"ops": ops, "rounds": rounds}


def run(stack):
    """Returns (results, raw rounds)."""
    daemon = harness.Daemon()
    stack.callback(daemon.stop)
    measured = {name: measure(daemon, daemon.directory, name) for name in RUNTIMES}
    return [r for results, _ in measured.values() for r in results], {name: raw for name, (_, raw) in measured.items()}
