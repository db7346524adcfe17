#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures tfprofd against its bars, by real servers, and prints a table; everything goes to build/bench.json, too.

Run by `make bench`, as root. What is compared is measured in one run, in turn, several rounds of it. It ends with 1 when a bar is
not met, or something could not be measured.
BENCH_SECONDS  of one measurement of throughput (2); less than 2 shortens the rest, too
BENCH_ROUNDS   of every comparison (4)
BENCH_ONLY     parts to run: idle, sites, attach, volume, pages, front, throughput, sampling, requests, stacks
"""
import contextlib
import json
import os
import pathlib
import platform
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness

import attach
import front
import idle
import pages
import request_cost
import result
import sampling
import settings
import sites
import stacks
import throughput
import volume

PARTS = {
    "idle": ("The daemon while nobody captures", idle.run),
    "sites": ("Probes on functions that begin in different ways", sites.run),
    "attach": ("Attaching and detaching", attach.run),
    "volume": ("Captures of many events", volume.run),
    "pages": ("Opening a capture of many events", pages.run),
    "front": ("Clients beside each other, and recording all the time", front.run),
    "throughput": ("What captures cost the server", throughput.run),
    "sampling": ("What a capture costs that samples ops", sampling.run),
    "requests": ("What seeing requests costs", request_cost.run),
    "stacks": ("What sampled stacks cost", stacks.run),
}
OUTPUT = harness.BUILD / "bench.json"


def machine():
    return {"kernel": platform.release(), "cpus": os.cpu_count(), "load_average": os.getloadavg()[0],
            "started": time.strftime("%Y-%m-%dT%H:%M:%S%z")}


def run_part(name):
    """One part as a dict, with an "error" when it failed to run."""
    title, function = PARTS[name]
    begun = time.monotonic()
    print(f"\n== {title}", flush=True)
    try:
        with contextlib.ExitStack() as stack:
            results, raw = function(stack)
    except Exception as e:
        print(f"{name}: not measured: {type(e).__name__}: {e}", flush=True)
        return {"error": str(e)}
    result.print_table(f"{title} ({time.monotonic() - begun:.0f} s)", results)
    return {"results": [r.as_dict() for r in results], "raw": raw}


def summarise(parts):
    results = [r for part in parts.values() for r in part.get("results", [])]
    missed = [r["name"] for r in results if r["met"] is False]
    failed = [name for name, part in parts.items() if "error" in part]
    print(f"\n{sum(r['met'] is True for r in results)} bars met, {len(missed)} not met"
          + "".join(f"\n    not met: {name}" for name in missed)
          + "".join(f"\n    not measured: {name}" for name in failed))
    return missed + failed


def main():
    if os.geteuid() != 0:
        sys.exit("bench: needs root, as probes are attached to other processes")
    unknown = set(settings.ONLY) - set(PARTS)
    if unknown:
        sys.exit(f"bench: BENCH_ONLY names no part: {' '.join(unknown)}; there are {' '.join(PARTS)}")
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    host = machine()
    print(f"{host['cpus']} CPUs, Linux {host['kernel']}, load average {host['load_average']:.2f}"
          + ("; this machine is busy: trust no figure" if host["load_average"] > 0.5 else ""))
    begun = time.monotonic()
    parts = {name: run_part(name) for name in PARTS if not settings.ONLY or name in settings.ONLY}
    bad = summarise(parts)
    OUTPUT.write_text(json.dumps({"machine": host, "seconds": settings.SECONDS, "rounds": settings.ROUNDS,
                                  "parts": parts}, indent=1) + "\n")
    print(f"took {time.monotonic() - begun:.0f} s; everything is in {OUTPUT.relative_to(harness.ROOT)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
