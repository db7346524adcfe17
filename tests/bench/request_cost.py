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


def load(server, model):
    """Requests of clients that wait for each answer: (requests/s, p50 in microseconds)."""
    out = subprocess.run([harness.BUILD / "servers/load_client", "--rest", f"127.0.0.1:{server.port}", "--model", model,
                          "--clients", str(CLIENTS), "--duration", str(settings.SECONDS)],
                         capture_output=True, text=True, check=True).stdout
    found = json.loads(out)
    return found["requests_per_s"], found["p50_ms"] * 1e3


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


def run(stack):
    """Returns (results, raw figures)."""
    server = harness.NativeServer(["half_plus_two"])
    stack.callback(server.stop)
    daemon = harness.Daemon()
    stack.callback(daemon.stop)
    harness.wait_target(daemon, server.pid)
    load(server, "half_plus_two")
    rates, latencies, calls = {}, {}, {}
    for _ in range(settings.ROUNDS):
        for name, arguments in {"no capture": None, **CAPTURES}.items():
            def measure():
                return load(server, "half_plus_two")
            rate, p50 = while_captured(daemon, server, arguments, settings.SECONDS + 10, measure) if arguments else measure()
            rates.setdefault(name, []).append(rate)
            latencies.setdefault(name, []).append(p50)
        calls.setdefault("no capture", []).append(call_ns())
        for name in ("level 1, not at sockets", "level 1"):
            calls.setdefault(name, []).append(while_captured(daemon, server, CAPTURES[name], 30, call_ns))
    results = [Result("requests, no capture", "1/s", rates["no capture"])]
    for name in CAPTURES:
        lost = [100 * (1 - rate / base) for rate, base in zip(rates[name], rates["no capture"])]
        longer = [p50 - base for p50, base in zip(latencies[name], latencies["no capture"])]
        results += [Result(f"{name}: throughput lost", "%", lost), Result(f"{name}: median latency longer by", "us", longer)]
    results += [Result(f"a system call of another process, {name}", "ns", found) for name, found in calls.items()]
    return results, {"rates": rates, "latencies_us": latencies}
