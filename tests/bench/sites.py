# SPDX-License-Identifier: Apache-2.0
"""What a probe costs on functions that begin in different ways: where bpftrace puts it, and where tfprofd would."""
import statistics
import subprocess

import bpftrace
import harness
import settings
from result import Result

LIBRARY = harness.BUILD / "sites/libstarts.so"
PROBE_SITES = harness.OUT / "sites/probe_sites"
# What a function begins with, and whether the kernel has to single-step that.
STARTS = {"endbr64": True, "mov": True, "sub": True, "lea": True, "push": False, "nop": False}
FUNCTIONS = {start: f"start_{start}" for start in STARTS}
NOTHING, BPFTRACE, OURS = "nothing", "bpftrace", "tfprofd's sites"
CHEAPER = 10
# of one measurement; the calls that find out how many that are
SECONDS, FIRST_CALLS = settings.SECONDS / 20, 2000


class Caller:
    """A process that calls the functions on request."""

    def __init__(self):
        self.process = subprocess.Popen([PROBE_SITES, "call", LIBRARY], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, bufsize=1)
        self.pid, self.calls = self.process.pid, 0
        if self.process.stdout.readline() != "ready\n":
            raise harness.HarnessError("probe_sites call did not start")

    def ns_per_call(self, function, count):
        self.process.stdin.write(f"{function} {count}\n")
        self.calls += count
        return float(self.process.stdout.readline())

    def measure(self):
        """{start: ns per call}"""
        found = {}
        for start, function in FUNCTIONS.items():
            ns = self.ns_per_call(function, FIRST_CALLS)
            found[start] = self.ns_per_call(function, max(FIRST_CALLS, int(SECONDS * 1e9 / max(ns, 1))))
        return found

    def stop(self):
        self.process.stdin.close()
        self.process.wait(harness.STOP_TIMEOUT_S)


def by_bpftrace(caller):
    program = " ".join(f"uprobe:{LIBRARY}:{name} {{ @{start} = count(); }}" for start, name in FUNCTIONS.items())
    tool = harness.Process("bpftrace", ["bpftrace", "-B", "line", "-p", caller.pid, "-e",
                                        program + ' BEGIN { printf("attached\\n"); }'])
    try:
        tool.wait_ready(lambda: "attached" in tool.stdout())
        # BEGIN comes before the other probes.
        for name in FUNCTIONS.values():
            harness.wait_until(lambda: caller.ns_per_call(name, 100) > 200, 10, f"bpftrace's probe of {name}")
        return caller.measure()
    finally:
        tool.stop()


def by_tfprofd(caller):
    tool = harness.Process("probe_sites", [PROBE_SITES, "attach", LIBRARY, caller.pid, *FUNCTIONS.values()])
    try:
        tool.wait_ready(lambda: tool.line(r"attached \d+ sites"))
        caller.calls = 0
        found = caller.measure()
    finally:
        tool.stop()
    counted = tool.line(r"counted (\d+)")
    if not counted or int(counted[1]) != caller.calls:
        raise harness.HarnessError(f"{caller.calls} calls, but {counted and counted[1]} were counted")
    return found


def run(stack):
    """Returns (results, raw rounds)."""
    caller = Caller()
    stack.callback(caller.stop)
    variants = {NOTHING: lambda: caller.measure(), OURS: lambda: by_tfprofd(caller)}
    if bpftrace.available():
        variants[BPFTRACE] = lambda: by_bpftrace(caller)
    rounds = []
    for i in range(settings.ROUNDS):
        rounds.append({name: measure() for name, measure in variants.items()})
        for name, found in rounds[-1].items():
            print(f"round {i + 1}: {name}:", "  ".join(f"{s} {ns:.0f}" for s, ns in found.items()), "ns per call", flush=True)

    def cost(name, start):
        return [max(r[name][start] - r[NOTHING][start], 1) for r in rounds]
    results = [Result(f"a probe of what begins with {start}: {name}", "ns", cost(name, start))
               for start in STARTS for name in variants if name != NOTHING]
    for start, stepped in STARTS.items():
        if BPFTRACE in variants:
            ours, theirs = cost(OURS, start), cost(BPFTRACE, start)
            results.append(Result(f"bpftrace / tfprofd's site: {start}", "", [t / o for t, o in zip(theirs, ours)],
                                  CHEAPER if stepped else None, at_least=True,
                                  value=statistics.median(theirs) / statistics.median(ours)))
    return results, rounds
