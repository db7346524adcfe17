# SPDX-License-Identifier: Apache-2.0
"""What sampled stacks cost: the BPF program by the kernel's statistics, and all of it by the server's time on a CPU for a run."""
import json
import os
import pathlib
import time

import client
import harness
import interval
import kernel
import settings
import throughput
from result import Result

HZ = 99
# Of the time of the CPUs, in percent.
BAR = 0.5
STATISTICS = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
ROWS = 256
MARGIN_S = 0.5


def samplers():
    """{id: (nanoseconds, number of its runs)} of the BPF programs that sample."""
    programs = json.loads(harness.run(harness.BPFTOOL, "-j", "prog", "show").stdout)
    return {p["id"]: (p.get("run_time_ns", 0), p.get("run_cnt", 0)) for p in programs if p.get("name", "").startswith("on_sample")}


def captured(daemon, server, *arguments):
    """What throughput.nothing() gives while a capture runs, and of the program {percent of the CPUs, microseconds for a run}."""
    capture = harness.Process("capture", [harness.OUT / "tfprofctl", "--daemon", f"unix:{daemon.socket}", "capture", "--pid", server.pid,
                                          "--level", 1, "--duration", f"{settings.SECONDS + 4 * MARGIN_S:g}",
                                          "-o", daemon.directory / "log", *arguments])
    try:
        kernel.wait_attached(daemon)
        time.sleep(MARGIN_S)
        before, begun = samplers(), time.monotonic()
        found = throughput.nothing(server)
        after, elapsed = samplers(), time.monotonic() - begun
        # Those of earlier captures disappear meanwhile.
        taken = sum(ns - before[number][0] for number, (ns, _) in after.items() if number in before)
        runs = sum(n - before[number][1] for number, (_, n) in after.items() if number in before)
        found["percent"] = 100 * taken / 1e9 / elapsed / os.cpu_count()
        found["each_us"] = taken / 1e3 / max(runs, 1)
        return found
    finally:
        capture.stop()
        kernel.wait_detached(daemon)


def run(stack):
    """Returns (results, raw rounds)."""
    daemon = harness.Daemon()
    stack.callback(daemon.stop)
    server = client.LoadedServer(ROWS)
    stack.callback(server.stop)
    harness.wait_target(daemon, server.pid)
    harness.read_files(daemon, server)
    sampled, plain = interval.take_pairs(settings.PAIRS, lambda samples: captured(daemon, server, *([f"--stacks={HZ}"] if samples else ())))
    lost = interval.less([p["cpu_us"] for p in plain], [s["cpu_us"] for s in sampled])
    # The kernel's statistics cost something, too.
    stack.callback(STATISTICS.write_text, STATISTICS.read_text())
    STATISTICS.write_text("1")
    programs = [captured(daemon, server, f"--stacks={HZ}") for _ in range(settings.TIMES)]
    return [Result(f"stacks at {HZ} Hz: throughput lost, by CPU time of a run", "%", lost, BAR, interval=settings.USUAL["PAIRS"]),
            Result(f"stacks at {HZ} Hz: BPF program, of the CPUs' time", "%", [p["percent"] for p in programs], BAR, interval=settings.USUAL["TIMES"]),
            Result(f"stacks at {HZ} Hz: BPF program, for each interrupt", "us", [p["each_us"] for p in programs])], \
        {"sampled": sampled, "plain": plain, "programs": programs}
