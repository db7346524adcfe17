# SPDX-License-Identifier: Apache-2.0
"""What tfprofd loses, and how soon it answers, when a server runs as many operations as it can."""

import os
import re
import signal
import threading
import time

import harness

WINDOW_MS = 2500
OPS_PER_S = 150_000, 400_000
UNDISTURBED_MAX = 260_000   # of which a capture leaves well above the lower bound
ANSWER_S = 15   # on however slow a machine, beside a server that takes every CPU; make bench holds the time to its bar
ROWS = 64, 96, 128, 192, 256, 320, 384, 448, 512, 640, 768, 1024    # the more rows an op works on, the fewer ops run in a second
OPS_PER_RUN = 268      # of the layered model, the cheap ones counted


def busy_server(rows):
    return harness.NativeServer(["layered"], self_load=2, rows=rows, http=False)


def capture(address, window_ms=WINDOW_MS):
    """(XSpace, seconds from the end of the window until the answer was there). Level 3 shows every operation."""
    response = harness.profile(address, duration_ms=window_ms, level=3)
    answered = time.time_ns()
    xspace = harness.response_xspace(response)
    return xspace, (answered - xspace.plane_stats["Task Environment"]["profile_stop_time"]) / 1e9


def ops_per_s(xspace):
    stats = xspace.plane_stats["Task Environment"]
    seconds = (stats["profile_stop_time"] - stats["profile_start_time"]) / 1e9
    return sum(map(len, xspace.ops().values())) / seconds


class Load(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon = self.start(harness.Daemon)

    def prepared(self, server):
        """The server's address, its symbols being known to the daemon already."""
        address = harness.wait_target(self.daemon, server.pid)["address"]
        harness.profile(address, duration_ms=1)
        return address

    def server_of_that_load(self):
        """A server that runs fewer operations than the upper bound when undisturbed, yet as many as it can."""
        for rows in ROWS:
            server = self.start(busy_server, rows)
            rate = server.runs_per_s(0.5) * OPS_PER_RUN
            if rate <= UNDISTURBED_MAX:
                return server
            server.stop()
        self.fail(f"{rate:.0f} operations per second even with {rows} rows")

    def test_150_000_ops_per_second_lose_nothing_and_are_answered_soon(self):
        server = self.server_of_that_load()
        address = self.prepared(server)
        xspace, late = capture(address)
        rate = ops_per_s(xspace)
        print(f"     {rate:.0f} op events/s, answered after {late:.2f} s with {xspace.size / 1e6:.0f} MB")
        self.assertEqual((xspace.warnings, xspace.errors), ([], []))
        self.check_complete(xspace)
        self.assertGreaterEqual(rate, OPS_PER_S[0])
        self.assertLessEqual(rate, OPS_PER_S[1])
        self.assertLessEqual(late, ANSWER_S)

    def check_complete(self, xspace, window_ms=WINDOW_MS):
        """Every run that lies in the window has all of its operations."""
        runs = xspace.events("SessionRun")
        whole = [e for e in runs if e.start_ps > 50e9 and e.start_ps + e.duration_ps < (window_ms - 50) * 1e9]
        self.assertGreater(len(whole), 100)
        counts = {name: len(durations) for name, durations in xspace.ops().items()}
        expected = max(counts.values())
        # The truncated runs, of which there are at most two at either end, lack some.
        self.assertEqual({name: n for name, n in counts.items() if n % expected and n < expected - 4}, {})

    def test_losses_are_reported_beside_the_result(self):
        """The front is stopped for a part of the window, so that the rings fill up."""
        server = self.start(busy_server, 1)
        self.prepared(server)
        front = self.daemon.front()
        stopper = threading.Timer(0.5, lambda: (os.kill(front, signal.SIGSTOP), time.sleep(2),
                                                os.kill(front, signal.SIGCONT)))
        stopper.start()
        command = harness.ctl_capture(self.daemon, [server.pid], self.directory / "logs", "--level", "3", duration="3s")
        stopper.join()
        self.assertEqual(command.status, 6, command.stderr)
        result = command.json
        self.assertGreater(result["dropped"], 0)
        self.assertGreater(result["records"], 0)
        path, = harness.xspace_files(self.directory / "logs")
        xspace = harness.XSpace(path)
        warnings = xspace.warnings
        self.assertEqual(warnings, result["warnings"])
        self.assert_on_overview(xspace, warnings)
        lost = [re.search(r"\b([1-9]\d*) of ([1-9]\d*) records were lost", w) for w in warnings if "lost" in w]
        self.assertTrue(lost and all(lost), f"what was lost, and of how much, is not stated: {warnings}")
        self.assertEqual(sum(int(m[1]) for m in lost), result["dropped"])
        self.assertEqual({int(m[2]) for m in lost}, {result["records"] + result["dropped"]})

    def test_as_many_operations_as_two_cores_can_run_lose_nothing_or_are_reported(self):
        server = self.start(busy_server, 1)
        xspace, _ = capture(self.prepared(server), 1000)
        print(f"     {ops_per_s(xspace):.0f} op events/s, warnings: {xspace.warnings}")
        self.assertGreater(ops_per_s(xspace), 0)
        self.assertEqual([w for w in xspace.warnings if "records were lost" not in w and "allocations are inexact" not in w], [])
        if not xspace.warnings:
            self.check_complete(xspace, 1000)


if __name__ == "__main__":
    harness.main()
