# SPDX-License-Identifier: Apache-2.0
"""What a capture costs whose ops are sampled to keep a budget, and how well it knows their times."""
import json
import subprocess
import time

import harness
import interval
import kernel
import settings
from result import Result

BUDGET, LOST = 1, 1.5       # percent
WINDOW_S = 60 * settings.SHARE
# Without a capture, before each window and after it.
BESIDE_S = WINDOW_S / 4
# What each 20th request lasts, which is longer than a slice; how long the client goes on.
LONG_MS, LOAD_S = 1000, 6
# Of what time of all ops, and by how much their means may differ from those of an exact capture.
SHARE, MEANS = 0.01, 5      # percent
ROWS, OPS_PER_S = (64, 128, 192, 256, 384, 512, 768, 1024), 200_000


def measure(server, seconds):
    """(runs per second, the server's CPU time for a run)."""
    # Both as rates of their own time: what is around the runs would count more in short measurements.
    cpu, begun = kernel.cpu_ns([server.pid]), time.monotonic()
    rate = server.runs_per_s(seconds)
    return rate, (kernel.cpu_ns([server.pid]) - cpu) / (time.monotonic() - begun) / rate


def begin(daemon, server, seconds, *arguments):
    return harness.Process("capture", [harness.OUT / "tfprofctl", "--daemon", f"unix:{daemon.socket}", "capture", "--json", "--pid", server.pid,
                                       "--duration", f"{seconds:g}", "-o", daemon.directory / "log", "--level", 2, *arguments])


def finish(capture):
    capture.wait(WINDOW_S + 60)
    return json.loads(capture.stdout())


def busy_server(daemon):
    """One of about that many ops per second, which runs its model by itself."""
    for rows in ROWS:
        server = harness.NativeServer(["layered"], self_load=2, rows=rows, http=False)
        harness.wait_target(daemon, server.pid)
        server.runs_per_s(3)
        ops = finish(begin(daemon, server, 1))
        per_s = server.runs_per_s(2) * ops["ops"] / max(ops["runs"], 1)
        if per_s <= OPS_PER_S or rows == ROWS[-1]:
            print(f"the server runs batches of {rows}: {per_s:,.0f} ops/s", flush=True)
            return server
        server.stop()


def means_off(sampled, exact):
    """Percent by which the mean of an op differs at most, of those that matter."""
    means = {op["name"]: op["total_ns"] / op["count"] for op in exact["top_ops"]}
    work = sum(op["self_ns"] for op in sampled["top_ops"])
    return max(100 * abs(op["mean_ns"] / means[op["name"]] - 1) for op in sampled["top_ops"]
               if op["self_ns"] >= SHARE * work and op["name"] in means)


def left_out(daemon):
    """(requests of the client's log that are longer than a slice, those that the capture counts)"""
    # Its own load is what the slices are for; requests are too few for the budget to disable them.
    server = harness.NativeServer(["layered"], self_load=1, rows=ROWS[0], arguments=("--delay-decode", str(LONG_MS)))
    log = daemon.directory / "requests.log"
    try:
        harness.wait_target(daemon, server.pid)
        capture = begin(daemon, server, LOAD_S + 6, "--max-overhead", BUDGET)
        kernel.wait_attached(daemon)
        # Every request lies in the window.
        time.sleep(1)
        subprocess.run([harness.BUILD / "servers/load_client", "--rest", f"127.0.0.1:{server.port}", "--model", "layered", "--width", "64",
                        "--clients", "4", "--rate", "40", "--warm", "0", "--duration", str(LOAD_S), "--log", log], capture_output=True, check=True)
        found = finish(capture)
    finally:
        server.stop()
    if not found.get("op_sampling"):
        raise harness.HarnessError("the budget sufficed without sampling")
    exchanges = map(json.loads, log.read_text(encoding="utf-8").splitlines())
    return sum(e["receive_ns"] - e["send_ns"] > LONG_MS * 500_000 for e in exchanges), found["op_sampling"]["requests_longer"]


def run(stack):
    """Returns (results, raw figures)."""
    daemon = harness.Daemon()
    stack.callback(daemon.stop)
    server = busy_server(daemon)
    stack.callback(server.stop)
    pairs, off, forecast, raw = [], [], [], []
    for _ in range(settings.PAIRS):
        before = measure(server, BESIDE_S)
        capture = begin(daemon, server, WINDOW_S + 2, "--max-overhead", BUDGET)
        kernel.wait_attached(daemon)
        with_it = measure(server, WINDOW_S)
        sampled = finish(capture)
        after = measure(server, BESIDE_S)
        exact = finish(begin(daemon, server, 3))
        pairs.append((with_it, [(a + b) / 2 for a, b in zip(before, after)]))
        off.append(means_off(sampled, exact))
        forecast.append(sampled["overhead_percent"])
        raw.append({"op_sampling": sampled["op_sampling"], "shed": sampled["shed"]})
    name = f"budget of {BUDGET} %, {WINDOW_S:g} s"
    server.stop()
    longer, counted = left_out(daemon)
    rates, costs = ([[which[i] for which in pair] for pair in pairs] for i in (0, 1))
    least = settings.USUAL["PAIRS"]
    return [Result(f"{name}: throughput lost, by CPU time of a run", "%", interval.less([b for _, b in costs], [a for a, _ in costs]), LOST,
                   interval=least),
            Result(f"{name}: throughput lost, by runs", "%", interval.less(*zip(*rates)), interval=least),
            Result(f"{name}: by forecast", "%", forecast),
            Result(f"{name}: slices", "", [r["op_sampling"]["slices"] for r in raw]),
            Result(f"{name}: means of ops off, the worst", "%", off, MEANS, interval=least),
            Result("requests longer than a slice, by the client", "", [longer], 1, at_least=True),
            Result("of these not counted as left out, or too many", "", [abs(longer - counted)], 0)], {"rounds": raw, "pairs": pairs}
