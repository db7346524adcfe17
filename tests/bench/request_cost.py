# SPDX-License-Identifier: Apache-2.0
"""What seeing requests costs: the server that is captured, and every other process of the host."""
import json
import subprocess
import time

import harness
import kernel
import settings
from result import Result

CLIENTS = 4
CALLS = 200_000
# Of one measurement with a capture at level 1 and one without, one after the other.
PAIRS, PAIR_S = 40, 1
# Of level 1: percent of throughput, microseconds for each of a request's two messages; and percent of a system call of others.
LOST, CALL_US, OTHERS = 5, 1.5, 2
CAPTURES = {"level 1, not at sockets": ("--level", 1, "--sockets", "off"), "level 1": ("--level", 1),
            "level 2, not at sockets": ("--level", 2, "--sockets", "off"), "level 2": ("--level", 2)}
GETPPID = f"""
import os, time
f, n = os.getppid, {CALLS}
best = 1e9
for _ in range(5):
    begin = time.process_time()
    for _ in range(n):
        f()
    best = min(best, (time.process_time() - begin) / n)
print(best * 1e9)
"""


def load(server, model, seconds):
    """Requests of clients that wait for each answer: (requests/s, p50 in microseconds, the server's CPU time for one in microseconds)."""
    cpu = kernel.cpu_ns([server.pid])
    out = subprocess.run([harness.BUILD / "servers/load_client", "--rest", f"127.0.0.1:{server.port}", "--model", model,
                          "--clients", str(CLIENTS), "--duration", str(seconds)],
                         capture_output=True, text=True, check=True).stdout
    found = json.loads(out)
    return found["requests_per_s"], found["p50_ms"] * 1e3, (kernel.cpu_ns([server.pid]) - cpu) / 1e3 / found["requests"]


def call_ns():
    """What a system call takes in a process that nobody captures."""
    return float(subprocess.run([harness.PYTHON, "-c", GETPPID], capture_output=True, text=True, check=True).stdout)


def while_captured(daemon, server, arguments, seconds, function):
    """What the function returns that is called while a capture runs."""
    capture = harness.Process("capture", [harness.OUT / "tfprofctl", "--daemon", f"unix:{daemon.socket}", "capture", "--pid",
                                          server.pid, "--duration", f"{seconds:g}", "-o", daemon.directory / "log", *arguments])
    try:
        kernel.wait_attached(daemon)
        time.sleep(0.2)
        return function()
    finally:
        capture.stop()
        kernel.wait_detached(daemon)


def pairs(daemon, server, model):
    """[(percent of throughput lost, microseconds of CPU time for a request more)] of level 1."""
    found = []
    for number in range(PAIRS):
        def measure():
            return load(server, model, PAIR_S)
        # What is measured first has no advantage over all pairs.
        if number % 2:
            without = measure()
        captured = while_captured(daemon, server, CAPTURES["level 1"], PAIR_S + 10, measure)
        if not number % 2:
            without = measure()
        found.append((100 * (1 - captured[0] / without[0]), captured[2] - without[2]))
    return found


def run(stack):
    """Returns (results, raw figures)."""
    model = "half_plus_two"
    server = harness.NativeServer([model])
    stack.callback(server.stop)
    daemon = harness.Daemon()
    stack.callback(daemon.stop)
    harness.wait_target(daemon, server.pid)
    load(server, model, settings.SECONDS)
    rates, latencies, calls = {}, {}, {}
    for _ in range(settings.ROUNDS):
        for name, arguments in {"no capture": None, **CAPTURES}.items():
            def measure():
                return load(server, model, settings.SECONDS)
            rate, p50, _ = while_captured(daemon, server, arguments, settings.SECONDS + 10, measure) if arguments else measure()
            rates.setdefault(name, []).append(rate)
            latencies.setdefault(name, []).append(p50)
    others = []
    for _ in range(PAIRS):
        calls.setdefault("no capture", []).append(call_ns())
        calls.setdefault("level 1", []).append(while_captured(daemon, server, CAPTURES["level 1"], 30, call_ns))
        others.append(100 * (calls["level 1"][-1] / calls["no capture"][-1] - 1))
    paired = pairs(daemon, server, model)
    results = [Result("requests, no capture", "1/s", rates["no capture"])]
    for name in CAPTURES:
        lost = [100 * (1 - rate / base) for rate, base in zip(rates[name], rates["no capture"])]
        longer = [p50 - base for p50, base in zip(latencies[name], latencies["no capture"])]
        results += [Result(f"{name}: throughput lost", "%", lost), Result(f"{name}: median latency longer by", "us", longer)]
    results += [Result(f"level 1: throughput lost, {PAIRS} pairs", "%", [p[0] for p in paired], LOST, interval=True),
                Result("level 1: CPU time of the server, for each of two messages", "us", [p[1] / 2 for p in paired], CALL_US,
                       interval=True)]
    results += [Result(f"a system call of another process, {name}", "ns", found) for name, found in calls.items()]
    results += [Result("a system call of another process: longer by", "%", others, OTHERS, interval=True)]
    return results, {"rates": rates, "latencies_us": latencies, "pairs": paired}
