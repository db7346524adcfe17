#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What other clients notice of captures that begin and of files that take long to read: nothing. As root."""
import json
import os
import pathlib
import struct
import sys
import tempfile
import time

import harness

E2E = pathlib.Path(__file__).resolve().parent
CAPTURES = 12
POLL_S = 5
# Of calls that do nothing; the machine has two CPUs, and a server, twelve captures and the prover use both.
P99_S = 0.020
LATE_NS = 100_000_000
SYMBOLS = 6_000_000


def slow_file(path):
    """A library whose symbol table takes long to read: every name is long, and none is looked for."""
    names = b"\0" + b"_ZN10tensorflow" + b"a" * 4000 + b"\0"
    code, strings = 0x1000, 0x2000
    symbols = strings + len(names) + -len(names) % 8
    sections = symbols + 24 * SYMBOLS
    head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 64, sections, 0, 64, 56, 1, 64, 4, 0)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 0x2000, 0x2000, 0x1000)

    def section(kind, flags, offset, size, link=0, entry=0):
        return struct.pack("<IIQQQQIIQQ", 0, kind, flags, offset if flags else 0, offset, size, link, 1 if entry else 0, 8, entry)
    with open(path, "wb") as f:
        f.write((head + load).ljust(code, b"\0"))
        f.write(b"\x55" * (strings - code) + names + bytes(-len(names) % 8))
        one = struct.pack("<IBBHQQ", 1, 0x12, 0, 1, code, 16)
        for _ in range(SYMBOLS // 100_000):
            f.write(one * 100_000)
        f.write(section(0, 0, 0, 0) + section(1, 6, code, strings - code) + section(2, 0, symbols, 24 * SYMBOLS, 3, 24) +
                section(3, 0, strings, len(names)))


MAPPER = """
import mmap, sys, time
with open(sys.argv[1], "rb") as f:
    code = mmap.mmap(f.fileno(), 0x2000, prot=mmap.PROT_READ | mmap.PROT_EXEC, flags=mmap.MAP_PRIVATE)
print("mapped", flush=True)
time.sleep(120)
"""


class Stalls(harness.TestCase):
    def poll(self, daemon, seconds):
        poller = self.start(harness.Process, "poller", [sys.executable, E2E / "poller.py", daemon.address, seconds])
        poller.wait_ready(lambda: poller.line("ready"))
        return poller

    def check_times(self, poller, what):
        self.assertEqual(poller.wait(120), 0, poller.stderr())
        times = sorted(json.loads(poller.stdout().splitlines()[-1]))
        p99 = times[int(len(times) * 0.99)]
        print(f"     {what}: {len(times)} calls, p50 {times[len(times) // 2] * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms, max {times[-1] * 1e3:.1f} ms")
        self.assertGreater(len(times), 100)
        if p99 > P99_S:
            raise harness.Disturbed(f"{what}: p99 {p99 * 1e3:.1f} ms")

    def begin(self, address, **request):
        channel, future = harness.rpc(address, "Profile", harness.profile_request(**request), harness.profiler_service().ProfileResponse)
        self.addCleanup(channel.close)
        return future

    def test_calls_of_others_do_not_wait_for_captures_that_begin(self):
        harness.retry_times(3, self.begin_captures)

    def begin_captures(self, _):
        daemon = self.start(harness.Daemon)
        server = self.start(harness.NativeServer, ["half_plus_two"])
        address = harness.wait_target(daemon, server.pid)["address"]
        self.assertEqual(harness.response_xspace(harness.profile(address, duration_ms=100)).errors, [])
        poller = self.poll(daemon, POLL_S)
        futures = [self.begin(address, duration_ms=200, session_id=f"s{n}") for n in range(CAPTURES)]
        for future in futures:
            self.assertEqual(harness.response_xspace(future.result(60)).errors, [])
        self.check_times(poller, f"while {CAPTURES} captures begin")

    def test_calls_of_others_do_not_wait_for_a_file_that_takes_long_to_read(self):
        harness.retry_times(3, self.read_a_file)

    def read_a_file(self, _):
        directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        library = directory / "libtensorflow_framework.so.2"
        slow_file(library)
        daemon = self.start(harness.Daemon)
        server = self.start(harness.NativeServer, ["half_plus_two"])
        address = harness.wait_target(daemon, server.pid)["address"]
        harness.profile(address, duration_ms=100)
        poller = self.poll(daemon, POLL_S)
        mapper = self.start(harness.Process, "mapper", [sys.executable, "-c", MAPPER, library])
        mapper.wait_ready(lambda: mapper.line("mapped"))
        begin = time.monotonic()
        plan = self.start(harness.Process, "plan", [harness.OUT / "tfprofctl", "--daemon", f"unix:{daemon.socket}", "plan", "--pid", mapper.pid])
        # A window of another process opens when it was asked to.
        time.sleep(0.2)
        start_ns = time.time_ns() + 1_500_000_000
        future = self.begin(address, duration_ms=200, start_timestamp_ns=start_ns)
        plan.wait(60)
        took = time.monotonic() - begin
        print(f"     the file took {took:.2f} s")
        self.assertGreater(took, 0.25, "the file is not slow")
        xspace = harness.response_xspace(future.result(60))
        self.assertEqual(xspace.errors, [])
        if (late := abs(xspace.plane_stats["Task Environment"]["profile_start_time"] - start_ns)) > LATE_NS:
            raise harness.Disturbed(f"the window began {late / 1e6:.0f} ms from its time")
        self.check_times(poller, "while a file is read")
        # It is read once, also if that fails.
        begin = time.monotonic()
        harness.ctl(daemon, "plan", "--pid", mapper.pid)
        self.assertLess(time.monotonic() - begin, took / 2)
        self.assertTrue(os.path.exists(f"/proc/{server.pid}"))


if __name__ == "__main__":
    harness.main()
