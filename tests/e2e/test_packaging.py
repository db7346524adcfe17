#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `make install` installs, and what it takes from systemd to run it: units, users, the notifications of a service. As root."""
import os
import pathlib
import re
import signal
import socket
import struct
import time
import types

import harness
import test_lifecycle

EXPOSURE_MAX = 24  # tenths
SERVICE_USER, SERVICE_GROUP = 61001, 61002


class Installed(harness.TestCase):
    def install(self):
        prefix = self.directory / "usr"
        command = harness.run("make", "-s", "-C", harness.ROOT, "install", f"PREFIX={prefix}")
        self.assertEqual(command.status, 0, command.stderr)
        return prefix

    def test_units_users_and_files_are_installed_and_removed(self):
        prefix = self.install()
        installed = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file()}
        for name in ("sbin/tfprofd", "bin/tfprofctl", "lib/systemd/system/tfprofd.service", "lib/systemd/system/tfprofd.socket",
                     "lib/sysusers.d/tfprofd.conf", "lib/tmpfiles.d/tfprofd.conf"):
            self.assertIn(name, installed)
        for unit in prefix.glob("lib/systemd/system/*"):
            self.assertNotIn("@PREFIX@", unit.read_text())
        command = harness.run("make", "-s", "-C", harness.ROOT, "uninstall", f"PREFIX={prefix}")
        self.assertEqual(command.status, 0, command.stderr)
        self.assertEqual([path for path in prefix.rglob("*") if path.is_file()], [])

    def test_systemd_accepts_the_units_and_the_service_s_exposure_is_at_most_2_4(self):
        units = self.install() / "lib/systemd/system"
        env = {"SYSTEMD_UNIT_PATH": f"{units}:"}
        command = harness.run("systemd-analyze", "verify", "--man=no", "tfprofd.service", "tfprofd.socket", env=env)
        # Of other units of this host it reports what concerns them.
        found = [line for line in (command.stdout + command.stderr).splitlines() if "tfprofd" in line]
        self.assertEqual(found, [])
        command = harness.run("systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE_MAX}",
                              units / "tfprofd.service")
        print(f"     {command.stdout.splitlines()[-1].strip()}")
        self.assertEqual(command.status, 0, command.stdout[-300:])

    def test_the_users_are_created(self):
        root = self.directory / "root"
        (root / "etc").mkdir(parents=True)
        command = harness.run("systemd-sysusers", f"--root={root}", harness.ROOT / "packaging/systemd/tfprofd.sysusers")
        self.assertEqual(command.status, 0, command.stderr)
        users = {line.split(":")[0]: line.split(":") for line in (root / "etc/passwd").read_text().splitlines()}
        groups = {line.split(":")[0]: line.split(":") for line in (root / "etc/group").read_text().splitlines()}
        self.assertLessEqual({"tfprofd", "tfprofd-front"}, set(users))
        self.assertNotEqual(users["tfprofd"][2], users["tfprofd-front"][2])
        self.assertTrue(all(fields[6].endswith("nologin") for fields in users.values()))
        self.assertIn("tfprofd", groups["tfprofd-front"][3].split(","))


class Notified(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.path = self.directory / "notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.socket.close)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket.bind(str(self.path))

    def receive(self, timeout):
        """(text, pid of the sender), (None, None) after so many seconds"""
        self.socket.settimeout(timeout)
        try:
            text, messages, _, _ = self.socket.recvmsg(4096, 1024)
        except TimeoutError:
            return None, None
        return text.decode(), struct.unpack("3i", messages[0][2])[0]

    def begin(self, **env):
        for name, value in {"NOTIFY_SOCKET": self.path, **env}.items():
            os.environ[name] = str(value)
            self.addCleanup(os.environ.pop, name, None)
        return self.start(harness.Daemon)

    def test_a_service_manager_learns_of_the_begin_the_end_and_that_both_processes_are_alive(self):
        daemon = self.begin(WATCHDOG_USEC=1_500_000)
        self.assertEqual(self.receive(10), ("READY=1", daemon.pid))
        self.assertEqual([self.receive(5) for _ in range(3)], [("WATCHDOG=1", daemon.pid)] * 3)
        for pid in daemon.front(), daemon.broker():
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.1)
            while self.receive(0.01)[0]:
                pass
            self.assertEqual(self.receive(1.2), (None, None), "a process that does nothing is not reported to be alive")
            os.kill(pid, signal.SIGCONT)
            self.assertEqual(self.receive(5)[0], "WATCHDOG=1")
        daemon.send(signal.SIGTERM)
        self.assertEqual(daemon.wait(10), 0)
        texts = []
        while (text := self.receive(0.1)[0]):
            texts.append(text)
        self.assertIn("STOPPING=1", texts)

    def test_without_a_watchdog_only_begin_and_end_are_reported(self):
        daemon = self.begin(WATCHDOG_USEC=300_000, WATCHDOG_PID=1)
        self.assertEqual(self.receive(10), ("READY=1", daemon.pid))
        self.assertEqual(self.receive(0.6), (None, None))


class AsService(test_lifecycle.Lifecycle):
    """Started as the service is: by another user than root, with the unit's capabilities, and with sockets that are handed over."""

    def test_a_daemon_of_a_user_with_the_unit_s_capabilities_captures(self):
        unit = (harness.ROOT / "packaging/systemd/tfprofd.service").read_text()
        names = re.search(r"^AmbientCapabilities=(.*)$", unit, re.MULTILINE)[1].split()
        self.assertEqual(names, re.search(r"^CapabilityBoundingSet=(.*)$", unit, re.MULTILINE)[1].split())
        capabilities = ",".join(f"+{name[4:].lower()}" for name in names)
        state = self.directory / "state"
        self.directory.chmod(0o755)
        state.mkdir(mode=0o700)
        os.chown(state, SERVICE_USER, SERVICE_GROUP)
        listeners = [socket.socket(socket.AF_UNIX), socket.socket(socket.AF_INET)]
        path = self.directory / "handed.sock"
        for listener, address in zip(listeners, (str(path), ("127.0.0.1", 0))):
            self.addCleanup(listener.close)
            listener.bind(address)
            listener.listen()
        first = harness.free_ports(harness.Daemon.TARGET_PORTS)
        script = 'exec 3<&%d 4<&%d; export LISTEN_PID=$$ LISTEN_FDS=2; exec "$@"' % tuple(s.fileno() for s in listeners)
        daemon = self.start(harness.Process, "tfprofd", [
            "setpriv", f"--reuid={SERVICE_USER}", f"--regid={SERVICE_GROUP}", "--clear-groups", "--no-new-privs",
            f"--bounding-set=-all,{capabilities}", f"--inh-caps=-all,{capabilities}", f"--ambient-caps=-all,{capabilities}",
            "bash", "-c", script, "sh", harness.OUT / "tfprofd", "--foreground", "--state-dir", state, "--target-ports", f"{first}-{first + harness.Daemon.TARGET_PORTS - 1}"],
            pass_fds=[s.fileno() for s in listeners])
        target = self.start(test_lifecycle.Fixture)
        where = types.SimpleNamespace(socket=path)
        daemon.wait_ready(lambda: str(target.pid) in harness.ctl(where, "targets").stdout, 20)
        address = harness.wait_target(where, target.pid)["address"]
        names = {harness.name_of(pid): pid for pid in harness.group_members(daemon.pid)}
        roles = [names[f"tfprofd-{role}"] for role in harness.ROLES]
        status = {pid: pathlib.Path(f"/proc/{pid}/status").read_text() for pid in roles}
        uids = {pid: re.search(r"^Uid:\t(\d+)", text, re.MULTILINE)[1] for pid, text in status.items()}
        self.assertEqual(uids.pop(names["tfprofd-broker"]), str(SERVICE_USER))
        self.assertNotIn(str(SERVICE_USER), uids.values())
        for text in status.values():
            self.assertIn("\nCapAmb:\t0000000000000000\n", text)
            self.assertIn("\nSeccomp:\t2\n", text)
        xspace = harness.response_xspace(harness.profile(address, duration_ms=500))
        self.assertEqual(xspace.errors, [])
        self.assertTrue(xspace.events())
        daemon.send(signal.SIGTERM)
        self.assertEqual(daemon.wait(10), 0)


if __name__ == "__main__":
    harness.main()
