# SPDX-License-Identifier: Apache-2.0
"""What a capture costs whose ops are sampled to keep a budget, and how well it knows their times."""
import json

import harness
import kernel
import settings
from result import Result

BUDGET, LOST = 1, 1.5       # percent
WINDOW_S = 60 * min(settings.SECONDS / 2, 1)
# Of what time of all ops, and by how much their means may differ from those of an exact capture.
SHARE, MEANS = 0.01, 5      # percent
ROWS, OPS_PER_S = (64, 128, 256, 512, 1024), 200_000


def measure(server):
    """(runs per second, the server's CPU time for a run) over a window."""
    cpu = kernel.cpu_ns([server.pid])
    rate = server.runs_per_s(WINDOW_S)
    return rate, (kernel.cpu_ns([server.pid]) - cpu) / (rate * WINDOW_S)


def begin(daemon, server, seconds, *arguments):
    return harness.Process("capture", [harness.OUT / "tfprofctl", "--daemon", f"unix:{daemon.socket}", "capture", "--json", "--pid", server.pid,
                                       "--duration", f"{seconds:g}", "-o", daemon.directory / "log", "--level", 2, *arguments])


def finish(capture):
    harness.wait_until(lambda: not capture.alive(), WINDOW_S + 60, "the capture has ended")
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


def run(stack):
    """Returns (results, raw figures)."""
    daemon = harness.Daemon()
    stack.callback(daemon.stop)
    server = busy_server(daemon)
    stack.callback(server.stop)
    lost, more, off, forecast, raw = [], [], [], [], []
    for _ in range(settings.ROUNDS):
        before = measure(server)
        capture = begin(daemon, server, WINDOW_S + 2, "--max-overhead", BUDGET)
        kernel.wait_attached(daemon)
        rate, cpu = measure(server)
        sampled = finish(capture)
        after = measure(server)
        exact = finish(begin(daemon, server, 3))
        lost.append(100 * (1 - 2 * rate / (before[0] + after[0])))
        more.append(100 * (2 * cpu / (before[1] + after[1]) - 1))
        off.append(means_off(sampled, exact))
        forecast.append(sampled["overhead_percent"])
        raw.append({"op_sampling": sampled["op_sampling"], "shed": sampled["shed"]})
    name = f"budget of {BUDGET} %, {WINDOW_S:g} s"
    return [Result(f"{name}: throughput lost", "%", lost, LOST), Result(f"{name}: CPU time of a run more", "%", more),
            Result(f"{name}: by forecast", "%", forecast),
            Result(f"{name}: slices", "", [r["op_sampling"]["slices"] for r in raw]),
            Result(f"{name}: means of ops off, the worst", "%", off, MEANS)], {"rounds": raw}
