# SPDX-License-Identifier: Apache-2.0
"""What a capture costs whose ops are sampled to keep a budget, and how well it knows their times."""
import json
import re
import signal
import statistics
import subprocess
import threading
import time

import client
import harness
import interval
import kernel
import settings
from result import Result

BUDGET, LOST = 1, 1.5       # percent
WINDOW_S = 60 * settings.SHARE
# The server is watched in pieces of this length; its runs in a slice, and this long around it, are compared with those this long beside it.
PIECE_S, AROUND_NS, BESIDE_NS = 0.025, 50_000_000, 300_000_000
# Of one measurement before a capture's first slice, and of one without a capture.
EACH_S = settings.SECONDS / 2
# What each 20th request lasts, which is longer than a slice; how long the client goes on.
LONG_MS, LOAD_S = 1000, 6
# Of what time of all ops, and by how much their means may differ from those of exact captures, before the window and after it.
SHARE, MEANS = 0.01, 5      # percent
EXACT_S = 3
ROWS, OPS_PER_S = (64, 128, 192, 256, 384, 512, 768, 1024), 200_000


class Watch(threading.Thread):
    """Of a server: runs, and the CPU time that they took, in short pieces of time, from start() until finish()."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.ends, self.done = server, [], threading.Event()
        self.before = len(self.reports())

    def reports(self):
        return re.findall(r"^self-load: (\d+) runs", self.server.stdout(), re.MULTILINE)

    def run(self):
        while not self.done.wait(PIECE_S):
            self.server.send(signal.SIGUSR1)
            self.ends.append((time.time_ns(), kernel.cpu_ns([self.server.pid])))

    def finish(self):
        """[(start, end, runs, CPU time)], times in ns."""
        self.done.set()
        self.join()
        reports = harness.wait_until(lambda: (found := self.reports()[self.before:])[len(self.ends) - 1:] and found, 10, "the reports")
        return [(a[0], b[0], int(runs), b[1] - a[1]) for a, b, runs in zip(self.ends, self.ends[1:], reports[1:])]


def slices(path):
    """[(start, end)] of when ops were recorded in a capture, in ns, but for the window's begin and end."""
    space = harness.XSpace(path)
    opened = space.plane_stats["Task Environment"]["profile_start_time"]
    away = sorted((e.start_ps // 1000, (e.start_ps + e.duration_ps) // 1000) for e in space.lines()["not captured"] if "here: ops" in e.name)
    return [(opened + a[1], opened + b[0]) for a, b in zip(away, away[1:])]


def lost_in_slices(pieces, found):
    """Of each slice, by how much the CPU time of the runs in and around it exceeds what the runs beside it take, in percent of the
    CPU time of all pieces, as if all slices were like it."""
    total, lost = sum(cpu for _, _, _, cpu in pieces), []
    for start, end in found:
        near = [(max(start - a, b - end), runs, cpu) for a, b, runs, cpu in pieces if b > start - BESIDE_NS and a < end + BESIDE_NS]
        inside, beside = ([(runs, cpu) for away, runs, cpu in near if (away < AROUND_NS) == which] for which in (True, False))
        runs, cpu = (sum(column) for column in zip(*inside))
        others, taken = (sum(column) for column in zip(*beside))
        lost.append(100 * len(found) * (cpu - runs * taken / others) / total)
    return lost


def cost(server, seconds):
    """The server's CPU time for a run, in ns."""
    server.mark()
    before, begun = kernel.cpu_ns([server.pid]), time.monotonic()
    time.sleep(seconds)
    per_s = (kernel.cpu_ns([server.pid]) - before) / (time.monotonic() - begun)
    runs, elapsed = server.mark()
    return per_s * elapsed / runs


def begin(daemon, server, seconds, *arguments):
    return harness.Process("capture", [harness.OUT / "tfprofctl", "--daemon", f"unix:{daemon.socket}", "capture", "--json", "--pid", server.pid,
                                       "--duration", f"{seconds:g}", "-o", daemon.directory / "log", "--level", 2, *arguments])


def finish(capture):
    capture.wait(WINDOW_S + 60)
    return json.loads(capture.stdout())


def before_a_slice(daemon, server, captured):
    """The CPU time of a run while a capture has not come to its first slice yet, or without one."""
    if not captured:
        return cost(server, EACH_S)
    capture = begin(daemon, server, EACH_S + 2, "--max-overhead", BUDGET)
    kernel.wait_attached(daemon)
    # The first ops are what the budget decides by.
    time.sleep(BESIDE_NS / 1e9)
    found, opened = cost(server, EACH_S), time.time_ns()
    answer = finish(capture)
    kernel.wait_detached(daemon)
    if any(start < opened for start, _ in slices(answer["file"])):
        raise client.TooBusy
    return found


def busy_server(daemon):
    """One of about that many ops per second, which runs its model by itself."""
    for rows in ROWS:
        server = client.LoadedServer(rows)
        harness.wait_target(daemon, server.pid)
        cost(server, 3)
        ops = finish(begin(daemon, server, 1))
        server.mark()
        time.sleep(2)
        runs, elapsed = server.mark()
        per_s = runs / elapsed * ops["ops"] / max(ops["runs"], 1)
        if per_s <= OPS_PER_S or rows == ROWS[-1]:
            print(f"the server runs batches of {rows}: {per_s:,.0f} ops/s", flush=True)
            return server
        server.stop()


def means_off(sampled, exact):
    """{op: (percent by which its mean differs from that of the exact captures, its share of the time of all)}."""
    known = [{op["name"]: op["total_ns"] / op["count"] for op in capture["top_ops"]} for capture in exact]
    work = sum(op["self_ns"] for op in sampled["top_ops"])
    return {op["name"]: (100 * (op["mean_ns"] / statistics.mean(means[op["name"]] for means in known) - 1), op["self_ns"] / work)
            for op in sampled["top_ops"] if all(op["name"] in means for means in known)}


def that_matter(windows):
    """{op: [percent by which its mean differs, by window]}, of those that have so much of the time of all windows."""
    found = {op: [w["means"][op] for w in windows if op in w["means"]] for op in windows[0]["means"]}
    return {op: [off for off, _ in each] for op, each in found.items() if sum(share for _, share in each) >= SHARE * len(windows)}


def sampled_window(daemon, server):
    """{"lost": by slice, "means": means_off(), and what the capture says of itself} of a window."""
    def exact():
        return [finish(begin(daemon, server, EXACT_S)) for _ in range(2)]
    before = exact()
    capture = begin(daemon, server, WINDOW_S, "--max-overhead", BUDGET)
    kernel.wait_attached(daemon)
    watch = Watch(server)
    watch.start()
    answer = finish(capture)
    pieces = watch.finish()
    return {"lost": lost_in_slices(pieces, slices(answer["file"])), "means": means_off(answer, before + exact()),
            "forecast": answer["overhead_percent"], "shed": answer["shed"], **answer["op_sampling"]}


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
    windows = [sampled_window(daemon, server) for _ in range(settings.TIMES)]
    with_it, without = interval.take_pairs(4 * settings.PAIRS, lambda captured: client.attempt("before a slice", before_a_slice, daemon, server, captured))
    server.stop()
    longer, counted = left_out(daemon)
    name = f"budget of {BUDGET} %, {WINDOW_S:g} s"
    in_slices, others = [lost for window in windows for lost in window["lost"]], interval.less(without, with_it)
    total = statistics.mean(in_slices) + statistics.mean(others)
    off = that_matter(windows)
    means = {op: interval.of_size(samples) for op, samples in off.items()}
    worst = max(means, key=lambda op: means[op][1])
    least = settings.USUAL["PAIRS"]
    return [Result(f"{name}: throughput lost, by CPU time of a run", "%", others, LOST, value=total, interval=least,
                   known=interval.of_sum(in_slices, others)),
            Result(f"{name}: of this in slices, compared with the time beside each", "%", in_slices, interval=least),
            Result(f"{name}: of this by all other probes", "%", others, interval=least),
            Result(f"{name}: by forecast", "%", [w["forecast"] for w in windows]),
            Result(f"{name}: slices", "", [w["slices"] for w in windows]),
            Result(f"{name}: mean of an op off, the worst", "%", off[worst], MEANS, value=abs(statistics.mean(off[worst])),
                   interval=settings.USUAL["TIMES"], known=means[worst]),
            Result(f"{name}: means of ops off, the worst of a window", "%", [max(abs(w["means"][op][0]) for op in off if op in w["means"]) for w in windows]),
            Result("requests longer than a slice, by the client", "", [longer], 1, at_least=True),
            Result("of these not counted as left out, or too many", "", [abs(longer - counted)], 0)], \
        {"windows": windows, "before a slice": with_it, "without": without}
