#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what a replay shows with what the client and the server logged while the recording was made (record.py): whose work each run is, where
each request's time went, batches, spans, the sums of allocations, and how the server started.
usage: logs.py NAME.log.json REQUESTS XSPACE      with the Python environment of the tests; prints what is wrong"""
import collections
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness
import test_requests

# The lifecycle of a server that was there from its exec to its first request.
PHASES = ["start", "libraries", "runtime", "load", "restore", "wait for the first request", "serving"]


def requests_problems(case, truth):
    figures = test_requests.compare(case, truth)
    problems = figures.problems
    if figures.right.total() != len(case.client) or figures.whole != len(case.client):
        problems.append(f"{figures.whole} whole requests, {figures.right} right, of {len(case.client)}")
    if not case.python and figures.right != {"exact": figures.whole}:
        problems.append(f"not exact: {figures.right}")
    return problems


def spans_problems(xspace, truth):
    """A span each, numbered by the server in the order of its requests, on the thread that ran the model."""
    found = sorted(e.stats["request_id"] for e in xspace.events("span handle"))
    return [] if found == list(range(1, len(truth) + 1)) else [f"spans {found} of {len(truth)} requests"]


def memory_problems(xspace):
    """What is in use is the sum of what came and went, from where the first event says it was."""
    problems, before = [], {}
    events = sorted((e for e in xspace.events() if e.name in ("MemoryAllocation", "MemoryDeallocation")), key=lambda e: e.start_ps)
    for e in events:
        name, size = e.stats["allocator_name"], e.stats["allocation_bytes"] * (1 if e.name == "MemoryAllocation" else -1)
        if name in before and e.stats["bytes_allocated"] != before[name] + size:
            problems.append(f"{before[name]} and {size} are {e.stats['bytes_allocated']} at {e.start_ps}")
        before[name] = e.stats["bytes_allocated"]
    return problems[:3] if events else ["no allocations"]


def lifecycle_problems(xspace, first):
    """Once in the order of its phases; it began to serve with the client's first request."""
    line, = (events for name, events in xspace.lines().items() if name.startswith("lifecycle of "))
    names = [e.name.split(" /")[0] for e in sorted(line, key=lambda e: (e.start_ps, e.name))]
    problems = [] if collections.Counter(names) == collections.Counter(PHASES) else [f"phases {names}"]
    serving = next(e for e in line if e.name.startswith("serving"))
    spaces = [e for name, events in xspace.lines().items() if name.startswith("requests ") for e in events if e.stats.get("_r") == -1]
    earliest = min(spaces, key=lambda e: e.start_ps)
    if not earliest.start_ps <= serving.start_ps <= earliest.start_ps + earliest.duration_ps:
        problems.append(f"it serves from {serving.start_ps}, and the first request is {earliest}")
    return problems


def main(log, requests, trace):
    lines = [json.loads(line) for line in pathlib.Path(log).read_text().splitlines()]
    case = test_requests.Case(**lines[0]["case"])
    case.client = [line["client"] for line in lines if "client" in line]
    case.requests = [test_requests.parse(line, True) for line in pathlib.Path(requests).read_text().splitlines()]
    truth = {line["server"]["id"]: line["server"] for line in lines if "server" in line}
    # By which the client opened its connections.
    truth = {id: record for id, record in truth.items() if id in {e["id"] for e in case.client}}
    xspace = harness.XSpace(trace)
    problems = requests_problems(case, truth) + memory_problems(xspace)
    problems += spans_problems(xspace, truth) if case.python else lifecycle_problems(xspace, case.client)
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


sys.exit(main(*sys.argv[1:]))
