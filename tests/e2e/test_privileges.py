#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the two processes of the daemon may do, each of their threads, as the kernel reports it: users, capabilities, no_new_privs, namespaces.
As root."""
import os
import pathlib

import harness
import test_lifecycle

NOBODY = 65534
# linux/capability.h
DAC_READ_SEARCH, SYS_PTRACE, SYS_ADMIN, PERFMON, BPF, CHECKPOINT_RESTORE = 2, 19, 21, 38, 39, 40
KEPT = {DAC_READ_SEARCH, SYS_PTRACE, PERFMON, BPF, CHECKPOINT_RESTORE}
SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")


def threads(pid):
    """{thread: its status as the kernel writes it, by field}"""
    found = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        lines = pathlib.Path(f"/proc/{pid}/task/{tid}/status").read_text().splitlines()
        found[int(tid)] = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return found


def capabilities(mask):
    return {number for number in range(64) if int(mask, 16) >> number & 1}


def namespaces(pid):
    """{thread: {kind: namespace}}"""
    return {int(tid): {kind: os.readlink(f"/proc/{pid}/task/{tid}/ns/{kind}") for kind in NAMESPACES} for tid in os.listdir(f"/proc/{pid}/task")}


class TestCase(test_lifecycle.Lifecycle):
    daemon_options = ()

    @classmethod
    def setUpClass(cls):
        """A daemon that captures and records, with whatever threads that takes."""
        super().setUpClass()
        cls.daemon = cls.start_shared(harness.Daemon, "--recorder", 2, "--recorder-overhead", 100, "--lifecycle", *cls.daemon_options)
        cls.target = cls.start_shared(test_lifecycle.Fixture)
        cls.address = harness.wait_target(cls.daemon, cls.target.pid)["address"]

    def setUp(self):
        super().setUp()
        self.future = self.profile_later(self.address, duration_ms=60_000, level=3)
        self.wait_window(self.daemon)
        self.broker, self.front = self.daemon.pid, self.daemon.front()

    def tearDown(self):
        # It was there while the threads were looked at.
        self.assertFalse(self.future.done())
        self.future.cancel()
        super().tearDown()

    def check_broker(self, kept):
        for tid, status in threads(self.broker).items():
            self.assertEqual(set(status["Uid"].split()) | set(status["Gid"].split()), {"0"}, tid)
            self.assertEqual({name: capabilities(status[name]) for name in SETS},
                             {"CapInh": set(), "CapPrm": kept, "CapEff": kept, "CapBnd": kept, "CapAmb": set()}, tid)
            self.assertEqual(status["NoNewPrivs"], "1", tid)


class Roles(TestCase):
    def test_every_thread_of_the_front_is_nobody_with_no_capability(self):
        for tid, status in threads(self.front).items():
            self.assertEqual(set(status["Uid"].split()) | set(status["Gid"].split()), {str(NOBODY)}, tid)
            self.assertEqual(status["Groups"], "", tid)
            self.assertEqual({name: capabilities(status[name]) for name in SETS}, {name: set() for name in SETS}, tid)
            self.assertEqual(status["NoNewPrivs"], "1", tid)

    def test_every_thread_of_the_broker_has_the_capabilities_that_captures_need_and_no_other(self):
        self.check_broker(KEPT)

    def test_the_broker_has_no_network_and_both_have_the_other_namespaces_of_the_host(self):
        own = {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in NAMESPACES}
        for pid, apart in (self.front, set()), (self.broker, {"net"}):
            for tid, found in namespaces(pid).items():
                self.assertEqual({kind for kind in NAMESPACES if found[kind] != own[kind]}, apart, (pid, tid))
        # Nothing is up in there, not even loopback.
        interfaces = harness.run("nsenter", f"--net=/proc/{self.broker}/ns/net", "ip", "-o", "link").stdout.splitlines()
        self.assertEqual([line.split()[1] for line in interfaces], ["lo:"])
        self.assertIn("state DOWN", interfaces[0])


class PerfEvents(TestCase):
    daemon_options = ("--probe-links", "perf-event")

    def test_for_perf_events_the_broker_keeps_one_more_capability(self):
        self.check_broker(KEPT | {SYS_ADMIN})


if __name__ == "__main__":
    harness.main()
