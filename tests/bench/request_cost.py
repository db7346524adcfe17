# SPDX-License-Identifier: Apache-2.0
"""What seeing requests costs: the server that is captured, and every other process of the host."""
import json
import subprocess
import time

import harness
import interval
import kernel
import settings
from result import Result

CLIENTS = 4
CALLS = 200_000
TRACEPOINTS = {"sys_enter", "sys_exit"}
# Of one measurement with a capture at level 1, and of one without.
PAIR_S = settings.SECONDS / 2
# Of level 1: percent of throughput, microseconds for a call that passes a message; and percent of a system call of others.
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


def measure_pairs(daemon, server, function, without=None):
    """What the function returns, of level 1 and of the other capture; None: of no capture."""
    def measure(is_level_1):
        name = "level 1" if is_level_1 else without
        return while_captured(daemon, server, CAPTURES[name], settings.SECONDS + 30, function) if name else function()
    return interval.take_pairs(settings.PAIRS, measure)


def programs_at_calls():
    """Of the BPF programs of this host, those that run at every system call of every process."""
    links = json.loads(harness.run(harness.BPFTOOL, "-j", "link", "show").stdout)
    programs = json.loads(harness.run(harness.BPFTOOL, "-j", "prog", "show").stdout)
    names = {p["id"]: p.get("name", "") for p in programs}
    return [link["prog_id"] for link in links
            if TRACEPOINTS & {link.get("tp_name"), link.get("tracepoint")} or names.get(link.get("prog_id"), "").removeprefix("on_") in TRACEPOINTS]


def run(stack):
    """Returns (results, raw figures)."""
    model = "half_plus_two"
    server = harness.NativeServer([model])
    stack.callback(server.stop)
    daemon = harness.Daemon()
    stack.callback(daemon.stop)
    harness.wait_target(daemon, server.pid)
    load(server, model, settings.SECONDS)
    rates, latencies = {}, {}
    for _ in range(settings.ROUNDS):
        for name, arguments in {"no capture": None, **CAPTURES}.items():
            def measure():
                return load(server, model, settings.SECONDS)
            rate, p50, _ = while_captured(daemon, server, arguments, settings.SECONDS + 10, measure) if arguments else measure()
            rates.setdefault(name, []).append(rate)
            latencies.setdefault(name, []).append(p50)
    calls = measure_pairs(daemon, server, call_ns)
    captured, plain = measure_pairs(daemon, server, lambda: load(server, model, PAIR_S))
    # Two of a request's calls pass a message. Its run costs the same with and without sockets.
    followed, unfollowed = measure_pairs(daemon, server, lambda: load(server, model, PAIR_S), "level 1, not at sockets")
    programs = while_captured(daemon, server, CAPTURES["level 1"], 30, programs_at_calls)
    costs = [[cost for _, _, cost in found] for found in (captured, plain)]
    results = [Result("requests, no capture", "1/s", rates["no capture"])]
    for name in CAPTURES:
        lost = [100 * (1 - rate / base) for rate, base in zip(rates[name], rates["no capture"])]
        longer = [p50 - base for p50, base in zip(latencies[name], latencies["no capture"])]
        results += [Result(f"{name}: throughput lost", "%", lost), Result(f"{name}: median latency longer by", "us", longer)]
    # A request takes so much more CPU time: so much less of the throughput is left when the CPUs are the limit.
    pairs = {"interval": settings.USUAL["PAIRS"]}
    results += [Result("level 1: throughput lost, by CPU time of a request", "%", interval.less(costs[1], costs[0]), LOST, **pairs),
                Result("level 1: throughput lost, by requests answered", "%", interval.less([c[0] for c in captured], [p[0] for p in plain]),
                       **pairs),
                Result("level 1: CPU time for a call that passes a message", "us", [(f[2] - u[2]) / 2 for f, u in zip(followed, unfollowed)],
                       CALL_US, **pairs),
                Result("system call of another process, level 1", "ns", calls[0]), Result("system call of another process, no capture", "ns", calls[1]),
                Result("system call of another process: longer by", "%", interval.more(*calls), OTHERS, **pairs),
                Result("programs at sys_enter and sys_exit during a capture", "", [len(programs)], 0)]
    return results, {"rates": rates, "latencies_us": latencies, "captured": captured, "plain": plain, "followed": followed,
                     "unfollowed": unfollowed}
