#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One user takes all that it can get, and the others still get in: connections, captures, ring buffers, targets. As root."""
import os
import shutil
import subprocess
import time

import harness

OK, INTERNAL = 0, 1
TAKER, OTHER = 65534, 65533
# As many connections as the program can open, each with a call that has begun: these cannot be closed in favor of others. It reports how many
# the daemon keeps, and holds them until its input ends.
FRAMES = r"""
import socket, sys, time

def literal(name, value):
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value

def frame(kind, flags, stream, body):
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body

def headers(path):
    return b"".join(literal(n, v) for n, v in (
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"x"), (b"content-type", b"application/grpc"),
        (b"te", b"trailers")))

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
"""
HOG = FRAMES + r"""
held = []
for _ in range(int(sys.argv[2])):
    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10)
    try:
        s.sendall(PREFACE + frame(1, 4, 1, headers(b"/tfprofd.Control/Status")))
    except OSError:
        pass
    held.append(s)
time.sleep(1)
kept = 0
for s in held:
    s.setblocking(False)
    try:
        while data := s.recv(65536):
            pass
    except BlockingIOError:
        kept += 1
    except OSError:
        pass
print(kept, flush=True)
sys.stdin.read()
"""
# Health.Watch as often as the program can call it on one connection; reports how many of the calls stay open.
WATCH = FRAMES + r"""
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10)
calls = int(sys.argv[2])
s.sendall(PREFACE + b"".join(frame(1, 4, 2 * i + 1, headers(b"/grpc.health.v1.Health/Watch")) + frame(0, 1, 2 * i + 1, bytes(5))
                             for i in range(calls)))
time.sleep(1)
received = s.recv(1 << 20)
while received:
    size, kind, flags = int.from_bytes(received[:3], "big"), received[3], received[4]
    calls -= kind == 1 and flags & 1
    received = received[9 + size:]
print(calls, flush=True)
sys.stdin.read()
"""


class Fixture(harness.Process):
    """A small target of a user."""

    def __init__(self, directory, user):
        super().__init__("one_program", ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", directory / "one_program"])


class Shares(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.directory.chmod(0o755)
        for path in (harness.BUILD / "fixtures/one_program", harness.OUT / "tfprofctl", harness.OUT / "tfprofd"):
            shutil.copy(path, self.directory)

    def serve(self, *arguments):
        self.daemon = self.start(harness.Daemon, *arguments)

    def fixture(self, user):
        fixture = self.start(Fixture, self.directory, user)
        harness.wait_target(self.daemon, fixture.pid)
        return fixture

    def popen(self, user, *argv):
        process = subprocess.Popen([str(a) for a in argv], user=user, group=user, extra_groups=[], cwd="/", stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        def end():
            process.kill()
            process.communicate()
        self.addCleanup(end)
        return process

    def capture(self, user, pid, duration):
        logdir = self.directory / f"logdir-{user}"
        logdir.mkdir(exist_ok=True)
        os.chown(logdir, user, user)
        return self.popen(user, self.directory / "tfprofctl", "--daemon", self.daemon.address, "capture", "--pid", pid, "-d", duration, "-o", logdir)

    def finish(self, process):
        out, err = process.communicate(timeout=60)
        return process.returncode, out + err

    def test_one_user_holds_its_share_of_connections_and_captures_and_others_get_in(self):
        self.serve()
        fixtures = {user: self.fixture(user) for user in (TAKER, OTHER, 0)}
        taken = [self.capture(TAKER, fixtures[TAKER].pid, "12s") for _ in range(12)]
        harness.wait_until(lambda: sum(p.poll() is not None for p in taken) >= 6 and self.running() == 6, 15, "six run, and the others are refused")
        refused = [self.finish(p) for p in taken if p.poll() is not None]
        self.assertEqual(len(refused), 6, refused)
        for status, text in refused:
            self.assertEqual(status, INTERNAL)
            self.assertIn(f"6 captures are already running for user {TAKER} (tfprofd --max-captures-per-user); wait for one to end", text)
        hog = self.popen(TAKER, "/usr/bin/python3", "-c", HOG, self.daemon.port, 300)
        kept = int(hog.stdout.readline())
        self.assertEqual(kept, 64 - 6)
        # All that this user can take is taken.
        refused = self.ask(TAKER, "status")
        self.assertEqual(refused.returncode, 1)
        self.assertEqual(refused.stderr, "tfprofctl: you hold as many connections as one user may (tfprofd --max-connections-per-user): close one of them\n")
        begin = time.monotonic()
        command = self.ask(OTHER, "targets", "--json")
        self.assertIn(f'"pid": {fixtures[OTHER].pid}', command.stdout, command.stderr)
        for user in (OTHER, 0):
            status, text = self.finish(self.capture(user, fixtures[user].pid, "200ms"))
            self.assertIn(status, (OK, 5, 6), text)
        # Root, over TCP as well.
        for address in (f"unix:{self.daemon.socket}", self.daemon.address):
            service = harness.profiler_service()
            channel, future = harness.rpc(address, "Monitor", service.MonitorRequest(), service.MonitorResponse)
            with channel:
                self.assertRegex(future.result(10).data, rf"\d+ processes to profile\n(.*\n)*  {fixtures[OTHER].pid} one_program, ")
        self.assertLess(time.monotonic() - begin, 12)
        self.assertIsNone(hog.poll())
        # A share is free again when its user lets it go.
        hog.communicate("")
        harness.wait_until(lambda: self.ask(TAKER, "status").returncode == OK, 5, "the user has connections again")

    def running(self):
        return [c["uid"] for c in harness.ctl(self.daemon, "status", "--json").json["captures"]].count(TAKER)

    def ask(self, user, *arguments):
        return subprocess.run([self.directory / "tfprofctl", "--daemon", self.daemon.address, *arguments], user=user, group=user, extra_groups=[],
                              cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)

    def test_the_broker_counts_ring_buffers_of_a_user_itself(self):
        # Captures have 16 MiB for each of up to 8 CPUs.
        each = 16 * min(os.cpu_count(), 8)
        self.serve("--ring-memory-per-user", 2 * each + 1)
        fixture = self.fixture(TAKER)
        running = [self.capture(TAKER, fixture.pid, "3s") for _ in range(2)]
        harness.wait_until(lambda: [c["elapsed_ns"] > 0 for c in harness.ctl(self.daemon, "status", "--json").json["captures"]] == 2 * [True], 10,
                           "they run")
        status, text = self.finish(self.capture(TAKER, fixture.pid, "100ms"))
        self.assertEqual(status, INTERNAL)
        self.assertIn(f"2 captures of user {TAKER} hold all ring buffers that one user may (tfprofd --ring-memory-per-user)", text)
        status, text = self.finish(self.capture(0, fixture.pid, "100ms"))
        self.assertIn(status, (OK, 5, 6), text)
        for process in running:
            self.assertIn(self.finish(process)[0], (OK, 5, 6))

    def test_processes_of_one_user_leave_room_for_targets_of_others(self):
        self.serve("--max-targets-per-user", 3)
        taken = [self.start(Fixture, self.directory, TAKER) for _ in range(5)]
        others = [self.fixture(user) for user in (OTHER, 0)]
        found = harness.ctl_targets(self.daemon)
        self.assertEqual(len([t for t in found.values() if t["uid"] == TAKER]), 3)
        self.assertLessEqual({o.pid for o in others}, set(found))
        left_out = next(f for f in taken if f.pid not in found)
        status, text = self.finish(self.capture(TAKER, left_out.pid, "100ms"))
        self.assertEqual(status, INTERNAL)
        self.assertIn(f"process {left_out.pid} is not a target: its user has as many as one user may have (tfprofd --max-targets-per-user)", text)
        # Room for it when another one ends.
        next(f for f in taken if f.pid in found).stop()
        harness.wait_until(lambda: left_out.pid in harness.ctl_targets(self.daemon), 10, "it is a target")

    def test_watchers_of_one_user_leave_room_for_others(self):
        self.serve()
        taker = self.popen(TAKER, "/usr/bin/python3", "-c", WATCH, self.daemon.port, 70)
        self.assertEqual(int(taker.stdout.readline()), 16)
        for user in (OTHER, 0):
            other = self.popen(user, "/usr/bin/python3", "-c", WATCH, self.daemon.port, 1)
            self.assertEqual(int(other.stdout.readline()), 1)


if __name__ == "__main__":
    harness.main()
