#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A process that makes itself expensive to profile costs the daemon time in proportion to what it does, and a limited amount of memory; other
processes in the same capture are captured as if it was not there. As root."""
import json
import os
import pathlib

import harness

FIXTURES = harness.BUILD / "fixtures"
OK, LOSS = 0, 6
PAUSES_US = (1000, 0)
SECONDS = (20, 60) if harness.LONG else (2, 4)
# Of the front: rings and records that wait; per event, as docs/cost.md has it; and with every table at its limit.
FIXED_BYTES, EVENT_BYTES, MOST_BYTES = 512 << 20, 200, 2 << 30
# CPU time per record at the higher rate, as a multiple of that at the lower rate.
SLOPE_MAX = 1.5


class HostileTarget(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon = self.start(harness.Daemon)
        self.front = self.daemon.front()
        self.other = self.start(harness.Process, "marking", [FIXTURES / "marking", FIXTURES / "libtensorflow_framework.so.2"])
        self.other.wait_ready(lambda: self.other.line("ready"))
        harness.wait_target(self.daemon, self.other.pid)

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.front}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def most_memory(self):
        """What the front had at most, in bytes, since the last call."""
        status = pathlib.Path(f"/proc/{self.front}/status").read_text()
        pathlib.Path(f"/proc/{self.front}/clear_refs").write_text("5")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def capture(self, pause_us, seconds):
        """(records, CPU time of the front) of a capture of both."""
        hostile = self.start(harness.Process, "hostile", [FIXTURES / "hostile", pause_us])
        hostile.wait_ready(lambda: hostile.line("ready"))
        harness.wait_target(self.daemon, hostile.pid)
        harness.read_files(self.daemon, hostile)
        self.most_memory()
        before = self.cpu_s()
        requests = self.directory / f"requests-{pause_us}"
        command = harness.ctl_capture(self.daemon, [hostile.pid, self.other.pid], self.directory / f"logdir-{pause_us}", "--level", "3",
                                      "--requests", requests, duration=f"{seconds}s", timeout=600)
        used = self.cpu_s() - before
        self.assertIn(command.status, (OK, LOSS), command.stderr)
        result = command.json
        memory = self.most_memory()
        print(f"     pause {pause_us} us: {result['records']} records, {result['dropped']} lost, front: {used:.1f} s of CPU time, "
              f"{memory >> 20} MiB at most")
        self.assertLessEqual(memory, min(FIXED_BYTES + EVENT_BYTES * result["records"], MOST_BYTES))
        self.check_other(requests, seconds, result)
        self.assertTrue(hostile.running())
        hostile.stop()
        return result["records"], used

    def check_other(self, requests, seconds, result):
        """Every request that the other process marked is there."""
        with open(requests, encoding="utf-8") as lines:
            own = [r for r in map(json.loads, lines) if r["pid"] == self.other.pid]
        numbers = sorted(r["id"] for r in own if not r["cut_start"] and not r["cut_end"])
        self.assertTrue(numbers, result["warnings"])
        self.assertGreater(len(numbers), 50 * seconds)
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))

    def test_a_process_that_is_expensive_to_profile_costs_in_proportion_and_harms_no_other(self):
        (few, little), (many, much) = (self.capture(*how) for how in zip(PAUSES_US, SECONDS))
        ratio = much / many / (little / few)
        print(f"     CPU time per record: {little / few * 1e6:.2f} us, {much / many * 1e6:.2f} us")
        self.assertGreater(many / SECONDS[1], 2 * few / SECONDS[0])
        self.assertLessEqual(ratio, SLOPE_MAX)


if __name__ == "__main__":
    harness.main()
