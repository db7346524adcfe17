#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes of the daemon that end, as its clients see it: connections that stay, calls that fail, and how soon it serves again. As root."""
import contextlib
import os
import pathlib
import signal
import socket
import sys
import time

import grpc

import harness
import test_cli
import test_lifecycle

OTHER = 65534

# A client whose connection stays: for each signal it lists the targets, and prints whether there are any and what has become of the connection
# since it was made.
CLIENT = """
import signal, sys, threading
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
import grpc
states, connected = [], threading.Event()
channel = grpc.insecure_channel(sys.argv[1], options=[("grpc.enable_http_proxy", 0)])
def note(state):
    states.append(state.name)
    if state.name == "READY":
        connected.set()
channel.subscribe(note, try_to_connect=True)
listing = channel.unary_unary("/tfprofd.Control/ListTargets")
# Calls may be answered before the state is told.
connected.wait()
print("ready", flush=True)
while signal.sigwait([signal.SIGUSR1]):
    try:
        print(len(listing(b"", timeout=10)) > 0, states[states.index("READY"):], flush=True)
    except grpc.RpcError as e:
        print(e.code().name, flush=True)
"""


class Client(harness.Process):
    def __init__(self, address, user):
        super().__init__("client", ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", sys.executable, "-c", CLIENT, address])
        self.wait_ready(lambda: "ready" in self.stdout())

    def ask(self):
        count = len(self.stdout().splitlines())
        self.send(signal.SIGUSR1)
        return harness.wait_until(lambda: len(lines := self.stdout().splitlines()) > count and lines[-1], 15, "the client's answer")


class Ends(test_lifecycle.Lifecycle):
    def setUp(self):
        super().setUp()
        self.before = harness.bpf_objects()
        self.target = self.start(test_lifecycle.Fixture)

    def begin(self, *arguments):
        self.daemon = self.start(harness.Daemon, *arguments)
        harness.wait_target(self.daemon, self.target.pid)
        return self.daemon.roles()

    def kill(self, name):
        roles = self.daemon.roles()
        os.kill(roles[name], signal.SIGKILL)
        return roles

    def test_clients_stay_connected_and_stay_who_they_are_when_the_broker_ends(self):
        self.begin()
        who = (f"unix:{self.daemon.socket}", 0), (self.daemon.address, 0), (self.daemon.address, OTHER)
        clients = [self.start(Client, *client) for client in who]
        right = [f"{user == 0} ['READY']" for _, user in who]
        self.assertEqual([client.ask() for client in clients], right)
        for name in ("broker", "prover", "broker"):
            roles = self.kill(name)
            begun = time.monotonic()
            after = self.daemon.wait_roles(replaced=[roles["broker"]])
            # The connections were not made again: neither did they break, nor is there another process at their end.
            self.assertEqual([client.ask() for client in clients], right)
            print(f"     {name}: answered {time.monotonic() - begun:.2f} s after its end")
            self.assertEqual(after["front"], roles["front"])
        # A new client is who it is, too.
        self.assertEqual(harness.ctl(self.daemon, "capture", "--pid", self.target.pid, "-d", "100ms", "-o", self.directory / "a").status, 0)
        denied = harness.run(harness.OUT / "tfprofctl", "--daemon", self.daemon.address, "plan", "--pid", self.target.pid, user=OTHER)
        self.assertEqual(denied.status, test_cli.DENIED, denied.stderr)

    def test_a_prover_that_is_killed_soon_after_its_start_is_replaced_again_and_again(self):
        roles = self.begin()
        # On busy CPUs the kernel may report its broker's end before its own, if it has a low priority.
        for number in range(2 * os.cpu_count()):
            self.start(harness.Process, f"hog-{number}", [sys.executable, "-c", "while True: pass"])
        # More would be too many restarts in a time.
        for _ in range(9):
            os.sched_setscheduler(roles["prover"], os.SCHED_IDLE, os.sched_param(0))
            os.kill(roles["prover"], signal.SIGKILL)
            roles = self.daemon.wait_roles(replaced=[roles["prover"], roles["broker"]])
        self.assertEqual(harness.ctl_targets(self.daemon).keys() & {self.target.pid}, {self.target.pid})

    def test_new_connections_wait_while_the_front_is_replaced(self):
        self.begin()
        # Held up until there was a client.
        self.daemon.send(signal.SIGSTOP)
        roles = self.kill("front")
        harness.wait_until(lambda: not pathlib.Path(f"/proc/{roles['broker']}").exists() or
                           "Z" in pathlib.Path(f"/proc/{roles['broker']}/stat").read_text().rpartition(")")[2][:3], 5, "its broker ends, too")
        self.assertEqual(harness.leftovers(self.before, 1, self.daemon), [])
        with socket.socket(socket.AF_UNIX) as early:
            early.connect(str(self.daemon.socket))
            early.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
            self.daemon.send(signal.SIGCONT)
            early.settimeout(5)
            # The server's settings.
            self.assertEqual(early.recv(9)[3], 4)
        self.assertIn(self.target.pid, harness.ctl_targets(self.daemon))

    def test_processes_keep_their_ports_when_the_front_is_replaced(self):
        self.begin()
        others = [self.start(test_lifecycle.Fixture) for _ in range(3)]
        for other in others:
            harness.wait_target(self.daemon, other.pid)
        # The last one to come has the first port.
        self.target.stop()
        harness.wait_until(lambda: self.target.pid not in harness.ctl_targets(self.daemon), 10, "one has ended")
        others.append(self.start(test_lifecycle.Fixture))
        harness.wait_target(self.daemon, others[-1].pid)
        # Other tests' processes come and go.
        own = [other.pid for other in others]
        ports = lambda: {pid: entry["address"] for pid, entry in harness.ctl_targets(self.daemon).items() if pid in own}
        before = ports()
        self.assertEqual(len(set(before.values())), 4)
        for name in ("front", "broker"):
            roles = self.kill(name)
            self.daemon.wait_roles(replaced=[roles["broker"]])
            for other in others:
                harness.wait_target(self.daemon, other.pid)
            self.assertEqual(ports(), before)
            for pid, address in before.items():
                listed = harness.run(harness.OUT / "tfprofctl", "--daemon", address.replace("localhost", "127.0.0.1"), "targets", "--json")
                self.assertEqual([target["pid"] for target in listed.json["targets"]], [pid])

    def test_the_next_front_has_the_configuration_of_the_last_reload(self):
        settings = self.directory / "tfprofd.conf"
        settings.write_text("[daemon]\nmax-duration = 60\n")
        self.begin("--config", settings)
        settings.write_text("[daemon]\nmax-duration = 1\n")
        self.daemon.send(signal.SIGHUP)
        harness.wait_until(lambda: "was reloaded" in self.daemon.stderr(), 10, "the configuration is read again")
        # Nobody asks for this one.
        settings.write_text("[daemon]\nmax-duration = 30\n")
        for name in ("broker", "front"):
            roles = self.kill(name)
            self.daemon.wait_roles(replaced=[roles["broker"]])
            done = harness.ctl(self.daemon, "capture", "--pid", self.target.pid, "-d", "2s", "-o", self.directory / name)
            self.assertNotEqual(done.status, 0)
            self.assertIn("1 s", done.stderr)

    def test_another_broker_serves_while_the_kernel_detaches_the_probes_of_the_killed_one(self):
        # The kernel detaches perf events one after the other.
        self.begin("--probe-links", "perf-event")
        capture = self.start(harness.Process, "capture", [harness.OUT / "tfprofctl", "--daemon", f"unix:{self.daemon.socket}", "capture",
                                                          "--pid", self.target.pid, "-d", "20s", "--level", 3, "-o", self.directory / "a"])
        self.wait_window(self.daemon)
        roles = self.daemon.roles()
        held = {key for key, holders in harness.bpf_holders().items() if key[0] == "link" and roles["broker"] in holders}
        begun = time.monotonic()
        os.kill(roles["broker"], signal.SIGKILL)
        self.assertIn(self.target.pid, harness.ctl_targets(self.daemon))
        served = time.monotonic() - begun
        left = held & set(harness.bpf_objects())
        self.assertTrue(left)
        self.assertEqual(harness.leftovers(self.before, 20, self.daemon), [])
        print(f"     served again after {served:.2f} s, when {len(left)} of {len(held)} links were left; they were gone after {time.monotonic() - begun:.2f} s")
        self.assertNotEqual(capture.wait(10), 0)
        harness.wait_until(lambda: "the broker was ended by a signal" in self.daemon.stderr(), 5, "its end is logged")
        harness.wait_until(lambda: not test_lifecycle.breakpoints(self.target.pid, test_lifecycle.LIBRARY.name), 20, "no breakpoint is left")
        self.assertEqual(self.daemon.stop(), 0)

    def test_the_recorder_goes_on_after_the_broker_s_end(self):
        self.begin("--recorder", 2, "--recorder-overhead", 100)
        recorded = lambda: harness.ctl(self.daemon, "snapshot", "-o", self.directory / "before").status == 0
        harness.wait_until(recorded, 20, "something is recorded")
        roles = self.kill("broker")
        after = self.daemon.wait_roles(replaced=[roles["broker"]])
        held = lambda: {key for key, pids in harness.bpf_holders().items() if key[0] == "link" and after["broker"] in pids}
        harness.wait_until(held, 10, "the recorder is attached again")
        time.sleep(0.5)
        done = harness.ctl(self.daemon, "snapshot", "-o", self.directory / "after")
        self.assertIn(done.status, (0, 6), done.stderr)
        xspace = harness.XSpace(harness.xspace_files(self.directory / "after")[0])
        self.assertTrue(xspace.events("SessionRun"))

    def test_a_daemon_whose_role_ends_again_and_again_ends_and_leaves_nothing(self):
        self.begin()
        end = time.monotonic() + 60
        while self.daemon.running() and time.monotonic() < end:
            with contextlib.suppress(ProcessLookupError):
                if broker := self.daemon.roles().get("broker"):
                    os.kill(broker, signal.SIGKILL)
            time.sleep(0.05)
        self.assertEqual(self.daemon.wait(10), 1)
        self.assertIn("restarts within", self.daemon.stderr())
        self.assertEqual(self.daemon.pids(), [])
        self.assertFalse(self.daemon.socket.exists())
        self.assertEqual(harness.leftovers(self.before), [])

    def test_it_stops_when_asked_in_the_middle_of_a_restart(self):
        for name in harness.ROLES:
            self.begin()
            self.kill(name)
            self.daemon.send(signal.SIGTERM)
            self.daemon.wait(10)
            self.assertEqual(self.daemon.pids(), [])
            self.assertFalse(self.daemon.socket.exists())
            self.assertEqual(harness.leftovers(self.before), [])


if __name__ == "__main__":
    harness.main()
