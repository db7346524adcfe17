# SPDX-License-Identifier: Apache-2.0
"""How far the latencies of requests are from those that their clients measured, where most of the time passes in the kernel."""
import statistics

import harness
import settings
import test_requests
from result import Result

MODEL = "half_plus_two"
WINDOW_S = 2
# Of the clients' median, or milliseconds: the larger.
SHARE, BAR_MS = 0.03, 1
CASES = {
    # Each answer's second segment waits for the ACK of the first.
    "keep-alive HTTP/1.1 without TCP_NODELAY, 9 clients": (9, ["--unbuffered"]),
    # Connections wait until they are accepted.
    "HTTP/1.0, 256 clients": (256, ["--http10"]),
}


def window(daemon, server, clients):
    """(the clients' median, ours) of the requests of one window that both have whole, in milliseconds."""
    requests, log = daemon.directory / "requests", daemon.directory / "client.log"
    client = harness.LoadClient(server.port, True, log, "--clients", clients, "--model", MODEL)
    try:
        done = harness.ctl_capture(daemon, [server.pid], daemon.directory / "log", "--level", 1, "--requests", requests, duration=f"{WINDOW_S}s")
        if done.status:
            raise harness.HarnessError(f"a capture ended with {done.status}: {done.stderr}")
        case = test_requests.Case("", True, MODEL, clients, 0, client=client.finish(),
                                  requests=[test_requests.parse(line, False) for line in requests.read_text().splitlines()])
    finally:
        client.stop()
    pairs = [(r, e) for r, e in test_requests.join(case)[0] if test_requests.is_whole(r)]
    return (statistics.median(e["receive_ns"] - e["send_ns"] for _, e in pairs) / 1e6,
            statistics.median(r["latency_ns"] for r, _ in pairs) / 1e6)


def measure(stack, name):
    clients, arguments = CASES[name]
    server = harness.HttpServer([MODEL], arguments=arguments)
    stack.callback(server.stop)
    daemon = harness.Daemon()
    stack.callback(daemon.stop)
    harness.wait_target(daemon, server.pid)
    found = [window(daemon, server, clients) for _ in range(settings.TIMES)]
    theirs = [client for client, _ in found]
    bar = max(BAR_MS, SHARE * statistics.median(theirs))
    return [Result(f"{name}: the clients' median", "ms", theirs),
            Result(f"{name}: ours is off by", "ms", [abs(client - ours) for client, ours in found], bar, interval=settings.USUAL["TIMES"])], found


def run(stack):
    """Returns (results, raw figures)."""
    results, raw = [], {}
    for name in CASES:
        rows, raw[name] = measure(stack, name)
        results += rows
    return results, raw
