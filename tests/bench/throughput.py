"""What a capture costs the server: throughput while the window is open, of tfprofd and of what else there is."""
import contextlib
import shutil
import statistics
import subprocess
import time

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

IN_PROCESS, EMPTY, BPFTRACE, LEVEL_2 = "in-process profiler, level 3", "empty program", "bpftrace", "tfprofd, level 2"

# TensorFlow's device and the end of an operation, as tfprofd uses them.
BPFTRACE_PROGRAM = """
uprobe:{library}:_ZN10tensorflow16ThreadPoolDevice7ComputeEPNS_8OpKernelEPNS_15OpKernelContextE
{{ @start[tid] = nsecs; }}
uprobe:{library}:_ZN10tensorflow15OpKernelContextD2Ev
/@start[tid]/ {{ @ns = hist(nsecs - @start[tid]); delete(@start[tid]); }}
interval:ms:200 {{ print(@ns); }}
"""


def _rate(server):
    """Runs per second from now on."""
    server.mark()
    time.sleep(settings.SECONDS)
    runs, seconds = server.mark()
    return runs / seconds


def nothing(server):
    return _rate(server), {}


def profiled(address, level):
    """By a capture over gRPC, of either profiler."""
    def measure(server):
        opens = time.time_ns() + int(LEAD_S * 1e9)
        duration_s = settings.SECONDS + 2 * MARGIN_S
        server.mark()
        with client.profile(address, int(duration_s * 1000), level, opens) as answer:
            time.sleep(max(0, opens / 1e9 + MARGIN_S - time.time()))
            begun, before = time.time_ns(), server.mark()
            time.sleep(settings.SECONDS)
            inside = server.mark()
            answer.wait()
            after = server.mark()
            found = answer.read()
        if found.opened_ns > begun:
            raise client.TooBusy
        marks = (before, inside, after)
        return inside[0] / inside[1], {"runs": sum(m[0] for m in marks), "seconds": sum(m[1] for m in marks),
                                       "answer_s": found.answer_s, "events": found.events, "bytes": found.size}
    return measure


def beside(name, argv, ready):
    """While a program is attached to the server."""
    def measure(server):
        process = harness.Process(name, argv)
        try:
            process.wait_ready(lambda: ready(process))
            time.sleep(MARGIN_S)
            return _rate(server), {}
        finally:
            process.stop()
    return measure


def bpftrace_available():
    """Whether bpftrace is there, by its Debian package if need be."""
    if shutil.which("bpftrace"):
        return True
    try:
        subprocess.run(["apt-get", "install", "-y", "-q", "--no-install-recommends", "bpftrace"], check=True,
                       timeout=180, stdin=subprocess.DEVNULL, capture_output=True)
        return bool(shutil.which("bpftrace"))
    except (OSError, subprocess.SubprocessError) as e:
        print(f"bpftrace: not measured, as it is not installed and could not be: {e}", flush=True)
        return False


def variants(daemon, server):
    """{name: function of the server that gives its runs per second}, nothing first."""
    address = harness.wait_target(daemon, server.pid)["address"]
    found = {"nothing": nothing}
    for level in (1, 2, 3):
        found[f"tfprofd, level {level}"] = profiled(address, level)
    found[IN_PROCESS] = profiled(server.profiler_address, 3)
    found[EMPTY] = beside("empty_probe", [harness.OUT / "bench/empty_probe", 2, server.pid],
                          lambda p: p.line(r"attached \d+ sites"))
    if bpftrace_available():
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
    """[{name: (runs per second, more)}], a round after the other; the last has nothing but the first variant."""
    rounds = []
    for i in range(settings.ROUNDS + 1):
        rounds.append({})
        for name, function in functions.items():
            rounds[-1][name] = client.attempt(name, function, server)
            kernel.wait_detached(daemon)
            if i == settings.ROUNDS:
                break
        print(f"round {i + 1}:", "  ".join(f"{n} {r:.0f}" for n, (r, _) in rounds[-1].items()), "runs/s", flush=True)
    return rounds


def losses(rounds):
    """{name: [share of the throughput lost, in percent, by round]}; what the server does with nothing beside it, before
    and after, is the measure."""
    found = {}
    for this, following in zip(rounds, rounds[1:]):
        base = (this["nothing"][0] + following["nothing"][0]) / 2
        for name, (rate, _) in this.items():
            if name != "nothing":
                found.setdefault(name, []).append(100 * (1 - rate / base))
    return found


def lost_seconds(rounds, name):
    """Seconds of full throughput that a capture cost in all, from the request to its answer, for each second shown."""
    window = settings.SECONDS + 2 * MARGIN_S
    found = []
    for this, following in zip(rounds, rounds[1:]):
        base = (this["nothing"][0] + following["nothing"][0]) / 2
        more = this[name][1]
        found.append((more["seconds"] - more["runs"] / base) / window)
    return found


def ratio(found, name, other, bar):
    """Of the medians: one disturbed round does not decide."""
    value = statistics.median(found[name]) / max(statistics.median(found[other]), 0.01)
    samples = [a / b if b > 0 else float("nan") for a, b in zip(found[name], found[other])]
    return Result(f"loss of {name} / loss of {other}", "", samples, bar, value=value)


def run(stack):
    """Returns (results, raw rounds)."""
    daemon = harness.Daemon()
    stack.callback(daemon.stop)
    server, rate = server_for(stack, daemon)
    rounds = take_rounds(daemon, variants(daemon, server), server)
    found = losses(rounds)
    spans = [r["nothing"][0] * rate.per_run for r in rounds]
    results = [Result("operations without a capture", "1/s", spans)]
    results += [Result(f"throughput lost: {name}", "%", samples) for name, samples in found.items()]
    results += [ratio(found, LEVEL_2, IN_PROCESS, 0.4), ratio(found, LEVEL_2, EMPTY, 1.15)]
    for name in (LEVEL_2, IN_PROCESS):
        results.append(Result(f"lost until the answer: {name}", "s per s", lost_seconds(rounds, name)))
    for name in (LEVEL_2, IN_PROCESS):
        results.append(Result(f"window's end to last byte: {name}", "s", [r[name][1]["answer_s"] for r in rounds[:-1]]))
    return results, rounds
