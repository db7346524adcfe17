# SPDX-License-Identifier: Apache-2.0
"""Captures of many events: whether any is lost, how long the answer takes, how much memory it takes."""
import concurrent.futures
import os
import pathlib
import signal
import time

import client
import harness
import kernel
import settings
from result import Result

ANSWER_S = 0.5
BYTES_PER_EVENT = 96
LEVEL = 2
# Of the capture in which the daemon is kept from reading: for the window to open, before and after, and then as a
# multiple of the time in which the rings are full, but at most so long.
OPEN_S, RUN_S, STOPPED_TIMES, STOPPED_S_MAX = 1.5, 0.5, 4, 10
# In a ring: a record that most probes make, and what precedes it.
RECORD_BYTES = 32 + 8
SETTLE_S = 0.2
# For /proc/PID/clear_refs
RESET_PEAK = "5"


def measure_memory(daemon, address, duration_ms):
    """(Answer, peak memory, what of it rings take) of a capture, in bytes; an idle daemon's memory is not counted."""
    front = kernel.front_of(daemon)
    pathlib.Path(f"/proc/{front}/clear_refs").write_text(RESET_PEAK)
    idle = kernel.memory_bytes(front, "VmRSS")
    with client.profile(address, duration_ms, LEVEL) as answer:
        kernel.wait_attached(daemon)
        time.sleep(duration_ms / 2000)
        rings = kernel.ring_bytes(front)
        found = answer.read()
    return found, kernel.memory_bytes(front, "VmHWM") - idle, rings


def names_shown(answer):
    """How many different operations a capture shows: the name of each is sent once."""
    return sum(bool("::" not in m.name and harness.OP_NAME.fullmatch(m.name))
               for plane in answer.xspace.planes for m in plane.event_metadata.values())


def stop_and_go(server, front, stopped_s):
    """The server runs, and for a part of that time the daemon does not read. Returns when it began and ended, in Unix
    nanoseconds."""
    begun = time.time_ns()
    server.send(signal.SIGCONT)
    time.sleep(RUN_S)
    os.kill(front, signal.SIGSTOP)
    time.sleep(stopped_s)
    os.kill(front, signal.SIGCONT)
    time.sleep(RUN_S)
    server.send(signal.SIGSTOP)
    # Until its last thread has stopped.
    time.sleep(SETTLE_S)
    return begun, time.time_ns()


def overload(daemon, server, stopped_s):
    """A capture in which the daemon does not read for a while. Nothing of the server runs at the window's edges, so
    that a program that only counts sees exactly what tfprofd's do. Returns (records seen, records lost, how many of
    those that were made are neither)."""
    server.send(signal.SIGSTOP)
    time.sleep(SETTLE_S)
    front, threads = kernel.front_of(daemon), len(os.listdir(f"/proc/{server.pid}/task"))
    release = harness.wait_target(daemon, server.pid)["version"]
    counter = harness.Process("empty_probe", [harness.OUT / "bench/empty_probe", "--count", 3, server.pid, release])
    try:
        counter.wait_ready(lambda: counter.line(r"attached \d+ sites"))
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            window_ms = (OPEN_S + 2 * RUN_S + stopped_s + 2 * SETTLE_S) * 1000
            future = pool.submit(client.capture, daemon, server.pid, window_ms, 3)
            time.sleep(OPEN_S)
            begun, ended = stop_and_go(server, front, stopped_s)
            counter.stop()
            answer = future.result()
    finally:
        os.kill(front, signal.SIGCONT)
        server.send(signal.SIGCONT)
        counter.stop()
    if answer.opened_ns > begun or answer.closed_ns < ended:
        raise client.TooBusy
    made = sum(map(int, counter.line(r"probes (\d+) switches (\d+) wakes (\d+) threads (\d+) foreign (\d+)").groups()))
    # Of its own, tfprofd sends the name of each operation and each thread.
    made += names_shown(answer) + threads
    return answer.result.records, answer.result.dropped, made - answer.result.records - answer.result.dropped


def measure_answers(daemon, server, address, duration_ms):
    """{how it was asked for: [Answer]}, in turn."""
    found = {"TCP": [], "Unix socket": []}
    for _ in range(settings.TIMES):
        with client.profile(address, duration_ms, LEVEL) as answer:
            found["TCP"].append(answer.read())
        kernel.wait_detached(daemon)
        found["Unix socket"].append(client.capture(daemon, server.pid, duration_ms, LEVEL))
        kernel.wait_detached(daemon)
    return found


def measure_paused(daemon, server, address, duration_ms):
    """The time to the answer when nothing competes with the daemon for the CPUs: the server stops with the window."""
    opens = time.time_ns() + 500_000_000
    with client.profile(address, duration_ms, LEVEL, opens) as answer:
        time.sleep(max(0, (opens - time.time_ns()) / 1e9 + duration_ms / 1e3))
        server.send(signal.SIGSTOP)
        try:
            return answer.read().answer_s
        finally:
            server.send(signal.SIGCONT)
            kernel.wait_detached(daemon)


def run(stack):
    """Returns (results, raw figures)."""
    daemon = harness.Daemon()
    stack.callback(daemon.stop)
    server, first = client.start_server(stack, daemon)
    address = harness.wait_target(daemon, server.pid)["address"]
    duration_ms = int(500 * settings.EVENTS / first.events)

    answer, peak, rings = measure_memory(daemon, address, duration_ms)
    kernel.wait_detached(daemon)
    answers = measure_answers(daemon, server, address, duration_ms)
    paused = [measure_paused(daemon, server, address, duration_ms) for _ in range(settings.ROUNDS)]
    # Each ring is mapped twice.
    full_s = rings / 2 / RECORD_BYTES / (first.result.records * 1e9 / first.result.window_ns)
    stopped_s = min(STOPPED_TIMES * full_s, STOPPED_S_MAX)
    overloads = [client.attempt("overload", overload, daemon, server, stopped_s) for _ in range(settings.ROUNDS)]
    records, dropped, missing = map(list, zip(*overloads))

    captures = [a.result for a in answers["Unix socket"]]
    rates = [a.ops_per_s for a in answers["Unix socket"]]
    rest = (peak - rings - answer.size) / answer.events
    return [Result("events shown", "", [a.events for both in answers.values() for a in both]),
            Result("operations captured", "1/s", rates, client.OPS_PER_S, at_least=True),
            Result("records captured", "1/s", [c.records * 1e9 / c.window_ns for c in captures]),
            Result("records lost", "", [c.dropped for c in captures], 0, value=max(c.dropped for c in captures)),
            Result("captures by TCP with a loss", "", [sum(a.lost for a in answers["TCP"])], 0),
            *(Result(f"window's end to last byte, {how}", "s", [a.answer_s for a in both], ANSWER_S, interval=settings.USUAL["TIMES"])
              for how, both in answers.items()),
            Result("window's end to last byte, server stops with the window", "s", paused),
            Result("overload: records seen", "", records),
            Result("overload: records lost", "", dropped, 1, at_least=True, value=min(dropped)),
            Result("overload: records neither seen nor counted as lost", "", missing, 0, value=max(map(abs, missing))),
            Result("peak memory of the front in a capture", "MB", [peak / 1e6]),
            Result("of it, rings", "MB", [rings / 1e6]),
            Result("of it, the encoded answer", "MB", [answer.size / 1e6]),
            Result("the rest per event shown", "bytes", [rest], BYTES_PER_EVENT),
            ], {"duration_ms": duration_ms, "overload_missing": missing}
