#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each place of the programs that asks for memory, a thread, or a BPF object fails once, while a server is captured, while the daemon starts,
and while a recording is replayed: nothing dies, nothing stays, no request of the target fails, and the next capture is complete. As root.

The programs of build/faults note in a shared file which places they reach, and let the one fail that the test names (tests/faults/faults.c)."""
import collections
import concurrent.futures
import gzip
import mmap
import os
import pathlib
import random
import struct
import subprocess
import time
import unittest.mock

import harness

FAULTY = harness.BUILD / "faults"
RECORDING = harness.ROOT / "tests/recordings/rest.tfp.gz"
SITES = 4096
ENDS = range(8)  # of tfprofctl


class Table:
    """The file that the programs share."""

    def __init__(self, path):
        path.write_bytes(bytes(4 * (2 + SITES)))
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)

    def seen(self):
        return {site for site in struct.unpack_from(f"{SITES}I", self.memory, 8) if site}

    def arm(self, site):
        struct.pack_into("2I", self.memory, 0, site, 0)

    def fired(self):
        return struct.unpack_from("I", self.memory, 4)[0] == 1


class Allocations(harness.TestCase):
    """Some places, or all of them in the long form."""

    SOME = 8
    UNIT_S = 20 if harness.LONG else 1

    def setUp(self):
        super().setUp()
        self.seed = int(os.environ.get("CHECK_SEED") or time.time())
        self.table = Table(self.directory / "faults")
        self.enterContext(unittest.mock.patch.dict(os.environ, FAULTS_FILE=str(self.directory / "faults")))

    def choose(self, sites):
        sites = sorted(sites)
        self.assertGreater(len(sites), self.SOME)
        return sites if harness.LONG else random.Random(self.seed).sample(sites, self.SOME)

    def name(self, program, site):
        """The call before the address to which it returns."""
        out = subprocess.run(["addr2line", "-f", "-e", program, hex(site - 1)], capture_output=True, text=True).stdout.split()
        return f"CHECK_SEED={self.seed}: {out[0]} at {out[1].replace(str(harness.ROOT) + '/', '')}"

    def begin(self):
        """A daemon of the program with places that fail."""
        with unittest.mock.patch.object(harness, "OUT", FAULTY):
            daemon = harness.Daemon("--state-dir", self.directory / "state", "--recorder", 1, "--recorder-overhead", 100, "--lifecycle")
        self.addCleanup(daemon.stop)
        return daemon

    def exercise(self, daemon, number):
        """What clients ask for; the exit statuses."""
        out = self.directory / f"out-{number}"
        pid = self.server.pid
        commands = (("doctor", "--pid", pid), ("targets",), ("plan", "--pid", pid), ("status",), ("snapshot", "-o", out / "snapshot"),
                    ("capture", "--pid", pid, "--level", 3, "--memory", "-d", "100ms", "--slowest", 3, "--requests", out / "requests.jsonl",
                     "--record", out / "recording.tfp", "-o", out / "logdir"))
        out.mkdir()
        return [harness.ctl(daemon, *command).status for command in commands]

    def check_again(self, daemon, before, what):
        self.table.arm(0)
        self.assertTrue(daemon.running(), what)
        harness.wait_until(lambda: harness.ctl(daemon, "capture", "--pid", self.server.pid, "-d", "50ms", "-o", self.directory / "again").status == 0,
                           10, f"{what}: the next capture is complete")
        self.assertNotIn("ended by a signal", daemon.stderr(), what)

    def test_each_place_fails_once_while_a_server_is_captured(self):
        before = harness.bpf_objects()
        self.server = self.start(harness.NativeServer, ["half_plus_two"])
        load = self.start(harness.Load, self.server, clients=1)
        daemon = self.begin()
        harness.wait_target(daemon, self.server.pid)
        at_start = self.table.seen()
        harness.wait_until(lambda: harness.ctl(daemon, "snapshot", "-o", self.directory / "early").status == 0, 10, "something is recorded")
        # What runs only now and then has run once.
        for number in range(2):
            self.assertEqual(self.exercise(daemon, f"first-{number}"), [0] * 6, daemon.stderr()[-2000:])
        sites = self.choose(self.table.seen())
        ends, fired = collections.Counter(), 0
        for number, site in enumerate(sites):
            what = self.name(FAULTY / "tfprofd", site)
            self.table.arm(site)
            statuses = self.exercise(daemon, number)
            self.assertLessEqual(set(statuses), set(ENDS), what)
            ends.update(map(bool, statuses))
            fired += self.table.fired()
            self.check_again(daemon, before, what)
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(harness.leftovers(before, 1), [])
        result = load.finish()
        print(f"     CHECK_SEED={self.seed}: {len(at_start)} places until it served, {len(self.table.seen())} in all; {len(sites)} tried, {fired} failed: "
              f"{ends[True]} commands failed, {ends[False]} did not; {result['requests']} requests")
        self.assertEqual(result["errors"], 0, result)
        self.assertGreater(fired, len(sites) // 2 if harness.LONG else 0)

    def test_each_place_fails_once_while_the_daemon_starts(self):
        before = harness.bpf_objects()
        self.server = self.start(harness.NativeServer, ["half_plus_two"])
        self.start(harness.Load, self.server, clients=1)
        daemon = self.begin()
        sites = self.choose(self.table.seen())
        self.assertEqual(daemon.stop(), 0)
        served = fired = 0
        for site in sites:
            what = self.name(FAULTY / "tfprofd", site)
            self.table.arm(site)
            try:
                daemon = self.begin()
                # It listens before each of its processes has begun.
                daemon.wait_ready(lambda: harness.ctl(daemon, "status").status == 0)
            except harness.HarnessError as e:
                # It has ended, and says why.
                self.assertIn("before it was ready", str(e), what)
                self.assertNotIn("ended by a signal", str(e), what)
                self.assertIn("tfprofd", str(e), what)
            else:
                served += 1
                self.check_again(daemon, before, what)
                self.assertEqual(daemon.stop(), 0, what)
            fired += self.table.fired()
            self.table.arm(0)
        self.assertEqual(harness.leftovers(before, 1), [])
        print(f"     CHECK_SEED={self.seed}: {len(sites)} places tried, {fired} failed: {served} daemons served all the same")
        self.assertGreater(fired, 0)

    def unit(self, program):
        """Of one program of unit tests: (places that failed, what died of it). Those that take longer try some."""
        directory = self.directory / program.name
        directory.mkdir()
        table, env = Table(directory / "faults"), {**os.environ, "FAULTS_FILE": str(directory / "faults")}
        run = lambda: subprocess.run([program], env=env, cwd=harness.ROOT, capture_output=True, text=True, errors="replace", timeout=60)
        begun = time.monotonic()
        self.assertEqual((first := run()).returncode, 0, first.stderr)
        took = time.monotonic() - begun
        sites = sorted(table.seen())
        names = subprocess.run(["addr2line", "-e", program, *(hex(site - 1) for site in sites)], capture_output=True, text=True).stdout.split("\n")
        # Of the program that is tested, not of the test.
        sites = [(site, name) for site, name in zip(sites, names) if "/tests/" not in name]
        most = max(1, int(self.UNIT_S / took))
        died, fired = [], 0
        for site, name in random.Random(self.seed).sample(sites, min(most, len(sites))):
            table.arm(site)
            status = run().returncode
            fired += table.fired()
            # A failed check ends it with 1.
            if status not in (0, 1):
                died.append((program.name, name, status))
        return fired, died

    def test_each_place_fails_once_in_unit_tests(self):
        programs = sorted((FAULTY / "tests").iterdir())
        self.assertGreater(len(programs), 80)
        if not harness.LONG:
            programs = random.Random(self.seed).sample(programs, self.SOME)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            found = list(pool.map(self.unit, programs))
        print(f"     CHECK_SEED={self.seed}: {sum(fired for fired, _ in found)} places failed in {len(programs)} programs")
        self.assertEqual([death for _, died in found for death in died], [])
        self.assertGreater(sum(fired for fired, _ in found), 0)

    def test_each_place_fails_once_while_a_recording_is_replayed(self):
        def replay(number):
            out = self.directory / f"replayed-{number}"
            done = harness.run(FAULTY / "tfprofctl", "replay", recording, "--json", "--slowest", 3, "--requests", self.directory / f"{number}.jsonl", "-o", out)
            return done, sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()) if out.exists() else []

        recording = self.directory / "recording.tfp"
        recording.write_bytes(gzip.decompress(RECORDING.read_bytes()))
        first, files = replay("first")
        self.assertEqual((first.status, len(files)), (0, 1), first.stderr)
        sites = sorted(self.table.seen())
        failed = fired = 0
        for number, site in enumerate(sites):
            what = self.name(FAULTY / "tfprofctl", site)
            self.table.arm(site)
            done, left = replay(number)
            self.assertIn(done.status, ENDS, what)
            fired += self.table.fired()
            if done.status:
                failed += 1
                self.assertTrue(done.stderr.strip(), f"{what}: no reason")
                self.assertEqual(left, [], what)
            elif self.table.fired():
                # It went on without what failed, or says what is missing.
                self.assertTrue(done.stdout.strip(), what)
        self.table.arm(0)
        print(f"     CHECK_SEED={self.seed}: {len(sites)} places tried, {fired} failed: {failed} replays failed with a reason")
        self.assertGreater(fired, 0)


if __name__ == "__main__":
    harness.main()
