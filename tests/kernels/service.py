#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The installed service, in a guest whose first process is systemd (tests/kernels/boot): it starts, captures, restarts, and stops.
usage: service.py DIR; DIR is what `make install DESTDIR=DIR PREFIX=/usr` has written."""
import pathlib
import re
import subprocess
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness
import test_lifecycle

# The clock of a guest is emulated.
STARTED_S, AGAIN_S = 120, 60
SOCKET = types.SimpleNamespace(socket=pathlib.Path("/run/tfprofd/tfprofd.sock"))
INSTALLED = pathlib.Path(sys.argv.pop(1))


def systemctl(*arguments):
    return harness.run("systemctl", "--no-pager", *arguments)


def shown(name):
    return systemctl("show", "--value", "-p", name, "tfprofd.service").stdout.strip()


class Service(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for command in (["cp", "-a", f"{INSTALLED}/.", "/"], ["systemd-sysusers"], ["systemd-tmpfiles", "--create", "/usr/lib/tmpfiles.d/tfprofd.conf"],
                        ["systemctl", "daemon-reload"]):
            subprocess.run(command, check=True)
        if harness.run(harness.OUT / "tfprofctl", "doctor", "--json").stdout.find('"perf-event-probes"') >= 0:
            # As the docs have it for such kernels.
            drop_in = pathlib.Path("/run/systemd/system/tfprofd.service.d/admin.conf")
            drop_in.parent.mkdir(parents=True)
            text = (harness.ROOT / "docs/install.md").read_text()
            drop_in.write_text("\n".join(re.findall(r"^    (\[Service\]|CapabilityBoundingSet=.*|AmbientCapabilities=.*)$", text, re.MULTILINE)))
            subprocess.run(["systemctl", "daemon-reload"], check=True)

    def capture(self, target):
        harness.wait_target(SOCKET, target.pid, AGAIN_S)
        command = harness.ctl_capture(SOCKET, [target.pid], self.directory / f"logs-{len(list(self.directory.iterdir()))}", duration="1s")
        self.assertEqual(command.status, 0, command.stderr)
        self.assertTrue(command.json["file"])

    def test_the_service_starts_captures_restarts_and_stops(self):
        command = systemctl("start", "tfprofd.service")
        self.assertEqual(command.status, 0, f"{command.stderr}\n{systemctl('status', 'tfprofd.service').stdout}")
        self.assertEqual((shown("ActiveState"), shown("Type"), shown("User")), ("active", "notify", "tfprofd"))
        first = int(shown("MainPID"))
        self.assertEqual((SOCKET.socket.stat().st_mode & 0o777, SOCKET.socket.group()), (0o660, "tfprofd"))
        roles = {pid: pathlib.Path(f"/proc/{pid}/status").read_text() for pid in {first, *harness.descendants(first)}}
        self.assertEqual({pathlib.Path(f"/proc/{pid}/environ").stat().st_uid for pid in roles}, {0}, "their memory is not readable")
        users = {line.split(":")[0]: line.split(":")[2] for line in pathlib.Path("/etc/passwd").read_text().splitlines()}
        self.assertEqual({re.search(r"^Uid:\t(\d+)", text, re.MULTILINE)[1] for text in roles.values()}, {users["tfprofd"], users["tfprofd-front"]})
        for text in roles.values():
            self.assertIn("\nSeccomp:\t2\n", text)
        target = self.start(test_lifecycle.Fixture)
        self.capture(target)
        subprocess.run(["kill", "-KILL", str(first)], check=True)
        harness.wait_until(lambda: shown("ActiveState") == "active" and int(shown("MainPID")) not in (0, first), AGAIN_S, "it is started again")
        self.capture(target)
        self.assertEqual(shown("NRestarts"), "1")
        command = systemctl("reload", "tfprofd.service")
        self.assertEqual(command.status, 0, command.stderr)
        self.capture(target)
        command = systemctl("stop", "tfprofd.service")
        self.assertEqual(command.status, 0, command.stderr)
        self.assertEqual((shown("ActiveState"), shown("Result")), ("inactive", "success"))


if __name__ == "__main__":
    harness.main()
