#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures tfprofd against its bars, by real servers, and prints a table; everything goes to build/bench.json, too. What was measured with the usual
settings, or longer, goes to tests/bench/results.json, which has the latest result of every part, and from there into README.md and docs/cost.md.

Run by `make bench`, as root. What is compared is measured in one run, in turn, several rounds of it. It ends with 1 when a bar is
not met, or something could not be measured.
BENCH_SECONDS  of one measurement of throughput (2); less than 2 shortens the rest, too
BENCH_ROUNDS   of what is for information (4)
BENCH_PAIRS    of what is compared with a bar (40)
BENCH_TIMES    repetitions of times that are compared with a bar (20)
BENCH_ONLY     parts to run, by their names; --list prints them with the time that each takes
"""
import contextlib
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness

import attach
import front
import idle
import latency
import pages
import recorder
import request_cost
import result
import runtimes
import sampling
import settings
import sites
import stacks
import stored
import tables
import throughput
import volume

# With the minutes that each takes with the usual settings.
PARTS = {
    "idle": ("The daemon while nobody captures", idle.run, 1),
    "sites": ("Probes on functions that begin in different ways", sites.run, 1),
    "attach": ("Attaching and detaching", attach.run, 4),
    "volume": ("Captures of many events", volume.run, 8),
    "pages": ("Opening a capture of many events", pages.run, 12),
    "front": ("Clients beside each other", front.run, 2),
    "throughput": ("What captures cost the server", throughput.run, 5),
    "runtimes": ("What captures cost other runtimes, and their own profilers", runtimes.run, 8),
    "sampling": ("What a capture costs that samples ops", sampling.run, 44),
    "requests": ("What seeing requests costs", request_cost.run, 9),
    "latency": ("How far latencies are from the clients'", latency.run, 3),
    "stacks": ("What sampled stacks cost", stacks.run, 9),
    "recorder-1": ("What it costs that the recorder is always on, at level 1", recorder.run(1), 18),
    "recorder-2": ("What it costs that the recorder is always on, at level 2", recorder.run(2), 9),
}
OUTPUT = harness.BUILD / "bench.json"


def run_part(name):
    """One part as a dict, with an "error" when it failed to run."""
    title, function, minutes = PARTS[name]
    begun, host = time.monotonic(), stored.machine()
    print(f"\n== {name}: {title}; with the usual settings about {minutes} min", flush=True)
    try:
        with contextlib.ExitStack() as stack:
            results, raw = function(stack)
    except Exception as e:
        print(f"{name}: not measured: {type(e).__name__}: {e}", flush=True)
        return {"error": str(e)}
    result.print_table(f"{title} ({time.monotonic() - begun:.0f} s)", results)
    if settings.IS_WHOLE:
        stored.put(name, {**host, "title": title, "took_s": round(time.monotonic() - begun), "results": [stored.row(r) for r in results]})
    return {"results": [r.as_dict() for r in results], "raw": raw}


def summarise(parts):
    results = [r for part in parts.values() for r in part.get("results", [])]
    missed = [r["name"] for r in results if r["met"] is False]
    failed = [name for name, part in parts.items() if "error" in part]
    print(f"\n{sum(r['met'] is True for r in results)} bars met, {len(missed)} not met"
          + "".join(f"\n    not met: {name}" for name in missed)
          + "".join(f"\n    not measured: {name}" for name in failed))
    return missed + failed


def write_tables():
    """Returns what could not be done, as a list of sentences."""
    try:
        tables.write()
        return []
    except ValueError as e:
        print(f"bench: {e}", flush=True)
        return [str(e)]


def main():
    if "--list" in sys.argv[1:]:
        print("\n".join(f"{name:12} {minutes:>4} min  {title}" for name, (title, _, minutes) in PARTS.items()))
        return 0
    if os.geteuid() != 0:
        sys.exit("bench: needs root, as probes are attached to other processes")
    unknown = set(settings.ONLY) - set(PARTS)
    if unknown:
        sys.exit(f"bench: BENCH_ONLY names no part: {' '.join(unknown)}; there are {' '.join(PARTS)}")
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    host = stored.machine()
    print(f"{host['cpus']} CPUs, Linux {host['kernel']}, load average {host['load_average']:.2f}"
          + ("; this machine is busy: trust no figure" if host["load_average"] > 0.5 else ""))
    begun = time.monotonic()
    parts = {name: run_part(name) for name in PARTS if not settings.ONLY or name in settings.ONLY}
    bad = summarise(parts) + (write_tables() if settings.IS_WHOLE else [])
    OUTPUT.write_text(json.dumps({"machine": host, "seconds": settings.SECONDS, "rounds": settings.ROUNDS, "pairs": settings.PAIRS,
                                  "times": settings.TIMES, "parts": parts}, indent=1) + "\n")
    print(f"took {time.monotonic() - begun:.0f} s; everything is in {OUTPUT.relative_to(harness.ROOT)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
