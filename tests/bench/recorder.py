# SPDX-License-Identifier: Apache-2.0
"""What it costs a server that the flight recorder is always on, with its usual budget: requests, and from level 2 sampled ops."""
import json
import subprocess

import harness
import interval
import kernel
import settings
from result import Result

COST = 1    # percent
# What a request costs changes within seconds by itself, so that longer measurements are no better; and until the budget has decided.
EACH_S, DECIDED_S = settings.SECONDS / 2, settings.SECONDS * 1.5
WIDE = "layered", "--width", "64"
SLOWLY = "--rate", "200"
# By level: what the results call it, and the client's arguments.
LOADS = {1: {"half_plus_two": ("half_plus_two",), "half_plus_two, 200 requests/s": ("half_plus_two", *SLOWLY),
             "layered": WIDE, "layered, 200 requests/s": (*WIDE, *SLOWLY)},
         2: {"layered": WIDE, "layered, 200 requests/s": (*WIDE, *SLOWLY)}}


def load(server, seconds, model, *arguments):
    """(requests per second, CPU time of the server per request) of clients that wait for each answer."""
    before = kernel.cpu_ns([server.pid])
    out = subprocess.run([harness.BUILD / "servers/load_client", "--rest", f"127.0.0.1:{server.port}", "--model", model, *arguments,
                          "--clients", "4", "--duration", str(seconds)], capture_output=True, text=True, check=True).stdout
    found = json.loads(out)
    return found["requests_per_s"], (kernel.cpu_ns([server.pid]) - before) / found["requests"]


def measure(records, level, server, *model):
    """(requests per second, CPU time per request, what the recorder reports of itself), beside a daemon that records or without one."""
    if not records:
        return *load(server, EACH_S, *model), None
    daemon = harness.Daemon("--recorder", level)
    try:
        harness.wait_target(daemon, server.pid)
        load(server, DECIDED_S, *model)
        found = load(server, EACH_S, *model)
        return *found, harness.ctl(daemon, "status", "--json").json["recorder"]
    finally:
        daemon.stop()


def run(level):
    """The part for a level: a function that returns (results, raw figures)."""
    def run_level(stack):
        server = harness.NativeServer(["half_plus_two", "layered"])
        stack.callback(server.stop)
        results, raw = [], {}
        for label, model in LOADS[level].items():
            name = f"recorder at level {level}, {label}"
            load(server, DECIDED_S, *model)
            on, off = interval.take_pairs(settings.PAIRS, lambda records, model=model: measure(records, level, server, *model))
            least = settings.USUAL["PAIRS"]
            results.append(Result(f"{name}: lost, by CPU time of a request", "%", interval.less([o[1] for o in off], [o[1] for o in on]), COST,
                                  interval=least))
            if model[-2:] != SLOWLY:
                results.append(Result(f"{name}: lost, by requests", "%", interval.less([o[0] for o in on], [o[0] for o in off]), interval=least))
            results += [Result(f"{name}: kinds of probes disabled", "", [len(o[2]["given_up"]) for o in on]),
                        Result(f"{name}: kinds that are sampled", "", [len(o[2]["sampled"]) for o in on])]
            raw[name] = {"on": on, "off": off}
        return results, raw
    return run_level
