# SPDX-License-Identifier: Apache-2.0
"""How long it takes to attach the probes and to detach them."""
import time

import client
import harness
import kernel
import settings
from result import Result

ATTACH_COLD_S, ATTACH_KNOWN_S, DETACH_S = 0.5, 0.05, 0.1
WINDOW_MS = 300
POLL_S = 0.001
# After its first program the rest of a next capture is loaded, also on a busy machine.
LOADED_S = 1


def capture(daemon, address):
    """(seconds to attach, seconds from the answer until no probe and no program is left of it), when the daemon has loaded those of a next one"""
    with client.profile(address, WINDOW_MS, 2) as answer:
        # Before the first probe is attached every program is loaded.
        ids = kernel.wait_attached(daemon)
        time.sleep(WINDOW_MS / 2000)
        ids |= kernel.attached_ids(daemon)
        found = answer.read()
    while any(kernel.id_exists(*i) for i in ids):
        if time.time_ns() - found.received_ns > 5e9:
            raise harness.HarnessError("probes are still there 5 s after the answer")
        time.sleep(POLL_S)
    detached_s = (time.time_ns() - found.received_ns) / 1e9
    harness.wait_until(lambda: kernel.held_ids(daemon) - ids, 10, "programs are loaded for the next capture")
    time.sleep(LOADED_S)
    return found.attach_s, detached_s


def measure(server):
    """{what: [seconds]} by round: the first capture of a fresh daemon, then a second one of the same server."""
    found = {"first": [], "second": [], "detach": []}
    for _ in range(settings.TIMES):
        daemon = harness.Daemon(harness.KEEP_PROGRAMS, "60s")
        try:
            address = harness.wait_target(daemon, server.pid)["address"]
            for which in ("first", "second"):
                attached, detached = capture(daemon, address)
                found[which].append(attached)
                found["detach"].append(detached)
        finally:
            daemon.stop()
    return found


def run(stack):
    """Returns (results, {})."""
    server = harness.NativeServer(["layered"], http=False)
    stack.callback(server.stop)
    idle = measure(server)
    times = {"interval": settings.USUAL["TIMES"]}
    results = [Result("attach, a fresh daemon", "s", idle["first"], ATTACH_COLD_S, **times),
               Result("attach, files seen before", "s", idle["second"], ATTACH_KNOWN_S, **times),
               Result("answer to the last probe and program gone", "s", idle["detach"], DETACH_S, **times)]
    server.stop()
    server = client.LoadedServer(1)
    stack.callback(server.stop)
    busy = measure(server)
    names = {"first": "attach, a fresh daemon, every CPU busy",
             "second": "attach, files seen before, every CPU busy",
             "detach": "answer to the last probe and program gone, every CPU busy"}
    return results + [Result(names[which], "s", samples, **times) for which, samples in busy.items()], {}
