# SPDX-License-Identifier: Apache-2.0
"""What a capture costs the server: throughput while the window is open, of tfprofd and of what else there is."""
import concurrent.futures
import contextlib
import statistics
import time

import bpftrace
import client
import harness
import kernel
import settings
from result import Result

# From the request to the window: attaching must be done by then. From the window's edges to what is measured.
LEAD_S, MARGIN_S = 0.7, 0.15
# Operation events per second without a capture: what a busy server of small operations makes.
OPS_PER_S_MAX = 300_000
ROWS = [64, 128, 256, 512, 1024]

IN_PROCESS, EMPTY, BPFTRACE, LEVEL_2 = "in-process, level 3", "empty program", "bpftrace", "tfprofd, level 2"
# In percent, and what a capture may cost above it.
BUDGET, BUDGET_SLACK = 5, 0.5
ENTRY, BUDGETED = "tfprofd, level 2, ops=entry", f"tfprofd, level 2, budget of {BUDGET} %"

# The most that level 2 may lose, as a multiple of what they lose.
IN_PROCESS_BAR, EMPTY_BAR = 0.4, 1.15

# TensorFlow's device and the end of an operation, as tfprofd uses them.
BPFTRACE_PROGRAM = """
uprobe:{library}:_ZN10tensorflow16ThreadPoolDevice7ComputeEPNS_8OpKernelEPNS_15OpKernelContextE
{{ @start[tid] = nsecs; }}
uprobe:{library}:_ZN10tensorflow15OpKernelContextD2Ev
/@start[tid]/ {{ @ns = hist(nsecs - @start[tid]); delete(@start[tid]); }}
interval:ms:200 {{ print(@ns); }}
"""


def nothing(server):
    """Runs per second, and the server's time on a CPU for each, which other programs disturb less."""
    server.mark()
    cpu, begun = kernel.cpu_ns([server.pid]), time.monotonic()
    time.sleep(settings.SECONDS)
    runs, seconds = server.mark()
    per_s = (kernel.cpu_ns([server.pid]) - cpu) / (time.monotonic() - begun)
    return {"rate": runs / seconds, "cpu_us": per_s / 1e3 / max(runs / seconds, 1e-9)}


def profiled(address, level, pids=()):
    """By a capture over gRPC, of either profiler; pids are the processes whose time on a CPU is of interest."""
    def measure(server):
        duration_ms = int((settings.SECONDS + 2 * MARGIN_S) * 1000)
        opens = time.time_ns() + int(LEAD_S * 1e9)
        server.mark()
        runs, asked = server.runs, time.monotonic()
        with client.profile(address, duration_ms, level, opens) as answer:
            time.sleep(max(0, opens / 1e9 + MARGIN_S - time.time()))
            begun, cpu = time.time_ns(), kernel.cpu_ns(pids)
            found = nothing(server)
            found["daemon_percent"] = 100 * (kernel.cpu_ns(pids) - cpu) / (time.time_ns() - begun)
            answer.wait()
            server.mark()
            found |= {"runs": server.runs - runs, "seconds": time.monotonic() - asked}
            capture = answer.read()
        if capture.opened_ns > begun:
            raise client.TooBusy
        return {**found, "answer_s": capture.answer_s, "events": capture.events, "bytes": capture.size}
    return measure


def controlled(daemon, **options):
    """By a capture as tfprofctl asks for it, at level 2, with options of it, from when its probes are there."""
    def measure(server):
        duration_ms = int((settings.SECONDS + 3 * MARGIN_S) * 1000)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            future = pool.submit(client.capture, daemon, server.pid, duration_ms, 2, **options)
            kernel.wait_attached(daemon)
            time.sleep(MARGIN_S)
            found = nothing(server)
            ended = time.time_ns()
            answer = future.result()
        if answer.closed_ns < ended:
            raise client.TooBusy
        return {**found, "forecast_percent": answer.result.overhead, "shed": [s.kind for s in answer.result.shed]}
    return measure


def beside(name, argv, ready):
    """While a program is attached to the server."""
    def measure(server):
        process = harness.Process(name, argv)
        try:
            process.wait_ready(lambda: ready(process))
            time.sleep(MARGIN_S)
            return nothing(server)
        finally:
            process.stop()
    return measure


def variants(daemon, server):
    """{name: function of the server that gives its runs per second}, nothing first."""
    target = harness.wait_target(daemon, server.pid)
    address = target["address"]
    found = {"nothing": nothing}
    for level in (1, 2, 3):
        found[f"tfprofd, level {level}"] = profiled(address, level, daemon.pids())
    found[ENTRY] = controlled(daemon, ops_at_entry=True)
    found[BUDGETED] = controlled(daemon, max_overhead=BUDGET)
    found[IN_PROCESS] = profiled(server.profiler_address, 3)
    found[EMPTY] = beside("empty_probe", [harness.OUT / "bench/empty_probe", 2, server.pid, target["version"]],
                          lambda p: p.line(r"attached \d+ sites"))
    if bpftrace.available():
        packages = harness.BUILD / "venv/lib"
        library = next(packages.glob("python3*/site-packages/tensorflow/libtensorflow_framework.so.2"))
        program = BPFTRACE_PROGRAM.format(library=library)
        measure = beside("bpftrace", ["bpftrace", "-B", "line", "-p", server.pid, "-e", program],
                         lambda p: "@ns:" in p.stdout())
        try:
            measure(server)
            found[BPFTRACE] = measure
        except harness.HarnessError as e:
            print(f"bpftrace: not measured, as it does not work here: {e}", flush=True)
    return found


def server_for(stack, daemon):
    """A server whose load makes as many operation events as a busy server of small operations."""
    for rows in ROWS:
        with contextlib.ExitStack() as attempt:
            server = client.LoadedServer(rows, profiler=True)
            attempt.callback(server.stop)
            rate = client.OpRate(daemon, server)
            if rate.per_second <= OPS_PER_S_MAX or rows == ROWS[-1]:
                stack.push(attempt.pop_all())
                print(f"the server runs batches of {rows}: {rate.per_run:.0f} operations a run, "
                      f"{rate.per_second:,.0f} a second", flush=True)
                return server, rate


def take_rounds(daemon, functions, server):
    """[{name: what it measured}], a round after the other; the last has nothing but the first variant."""
    rounds = []
    for i in range(settings.ROUNDS + 1):
        rounds.append({})
        for name, function in functions.items():
            rounds[-1][name] = client.attempt(name, function, server)
            kernel.wait_detached(daemon)
            if i == settings.ROUNDS:
                break
        print(f"round {i + 1}:", "  ".join(f"{n} {m['rate']:.0f}" for n, m in rounds[-1].items()), "runs/s", flush=True)
    return rounds


def by_round(rounds, name, value):
    """[value(measured, what there was without a capture)]; of the latter the mean of before and after."""
    def without(key):
        return [(this["nothing"][key] + following["nothing"][key]) / 2 for this, following in zip(rounds, rounds[1:])]
    return [value(r[name], {"rate": rate, "cpu_us": cpu})
            for r, rate, cpu in zip(rounds, without("rate"), without("cpu_us"))]


def lost(measured, without):
    """Share of the throughput that is lost, in percent."""
    return 100 * (1 - measured["rate"] / without["rate"])


def lost_cpu(measured, without):
    """The same, from the server's time on a CPU for each run: what is lost when it gets as much CPU as before."""
    return 100 * (1 - without["cpu_us"] / measured["cpu_us"])


def lost_seconds(measured, without):
    """Seconds of full throughput that a capture cost in all, until its answer, for each second of its window."""
    return (measured["seconds"] - measured["runs"] / without["rate"]) / (settings.SECONDS + 2 * MARGIN_S)


def ratio(what, samples, other, bar):
    """Of the medians: one disturbed round does not decide."""
    value = statistics.median(samples) / max(statistics.median(other), 0.01)
    return Result(what, "", [a / b for a, b in zip(samples, other) if b > 0] or [value], bar, value=value)


def run(stack):
    """Returns (results, raw rounds)."""
    daemon = harness.Daemon()
    stack.callback(daemon.stop)
    server, rate = server_for(stack, daemon)
    rounds = take_rounds(daemon, variants(daemon, server), server)
    names = [name for name in rounds[0] if name != "nothing"]
    losses = {name: by_round(rounds, name, lost) for name in names}
    on_cpu = {name: by_round(rounds, name, lost_cpu) for name in names}
    results = [Result("operations without a capture", "1/s", [r["nothing"]["rate"] * rate.per_run for r in rounds])]
    results += [Result(f"throughput lost: {name}", "%", losses[name]) for name in names]
    results += [Result(f"the same by its own forecast: {ENTRY}", "%", [r[ENTRY]["forecast_percent"] for r in rounds[:-1]]),
                Result(f"the same by its own forecast: {BUDGETED}", "%",
                       [r[BUDGETED]["forecast_percent"] for r in rounds[:-1]], BUDGET + BUDGET_SLACK)]
    results.append(ratio(f"{ENTRY} / {IN_PROCESS}", losses[ENTRY], losses[IN_PROCESS], None))
    for other, bar in ((IN_PROCESS, IN_PROCESS_BAR), (EMPTY, EMPTY_BAR)):
        results.append(ratio(f"{LEVEL_2} / {other}", losses[LEVEL_2], losses[other], bar))
    results += [Result(f"lost by the server's CPU time: {name}", "%", on_cpu[name]) for name in names]
    for other in (IN_PROCESS, EMPTY):
        results.append(ratio(f"by the server's CPU time: {LEVEL_2} / {other}", on_cpu[LEVEL_2], on_cpu[other], None))
    results.append(Result(f"CPU of the daemon in the window: {LEVEL_2}", "%",
                          [r[LEVEL_2]["daemon_percent"] for r in rounds[:-1]]))
    for name in (LEVEL_2, IN_PROCESS):
        results.append(Result(f"lost until the answer: {name}", "s per s", by_round(rounds, name, lost_seconds)))
    for name in (LEVEL_2, IN_PROCESS):
        results.append(Result(f"window's end to last byte: {name}", "s", [r[name]["answer_s"] for r in rounds[:-1]]))
    return results, rounds
