#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make install and make demo, as a newcomer types them. As root."""
import os
import stat

import harness
from test_cli import HIDE_DAEMON

PROGRAM, FILE = 0o755, 0o644
INSTALLED = {"sbin/tfprofd": PROGRAM, "bin/tfprofctl": PROGRAM, "lib/libtfprof.so": PROGRAM, "include/tfprof.h": FILE, "share/tfprof/tfprof.py": FILE,
             "share/doc/tfprofd/security.md": FILE, "lib/sysusers.d/tfprofd.conf": FILE, "lib/tmpfiles.d/tfprofd.conf": FILE,
             **{f"lib/systemd/system/tfprofd.{kind}": FILE for kind in ("service", "socket")}}
DEMO_S = 180
# Of a make above this test.
MAKE_VARIABLES = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")


def make(*arguments, timeout=harness.ANSWER_TIMEOUT_S):
    return harness.run("env", *(f"-u{name}" for name in MAKE_VARIABLES), "make", *arguments, timeout=timeout)


class Make(harness.TestCase):
    def test_the_installed_programs_run(self):
        for prefix in ("/usr/local", "/opt/tfprofd"):
            root = self.directory / prefix.rpartition("/")[2]
            command = make("install", f"DESTDIR={root}", *([] if prefix == "/usr/local" else [f"PREFIX={prefix}"]))
            self.assertEqual(command.status, 0, command.stdout + command.stderr)
            found = {str(p.relative_to(root / prefix[1:])): stat.S_IMODE(p.stat().st_mode) for p in root.rglob("*") if p.is_file()}
            self.assertEqual(found, INSTALLED)
            # It finds its daemon in ../sbin.
            control = root / prefix[1:] / "bin/tfprofctl"
            command = harness.run(*HIDE_DAEMON, control, "doctor", "--json", env={"PATH": "/usr/bin:/bin"})
            self.assertEqual(command.status, 0, command.stdout + command.stderr)
            self.assertIn("ready", {finding["code"] for finding in command.json["findings"]})

    def test_the_demo_captures_a_real_server_and_shows_its_operations(self):
        command = make("demo", timeout=DEMO_S)
        self.assertEqual(command.status, 0, command.stdout[-3000:] + command.stderr[-3000:])
        self.assertIn("Capture profile successfully", command.stdout)
        self.assertRegex(command.stdout, r"(?m)^ +[\d.]+ +[\d.]+ +\d+  MatMul ")
        self.assertRegex(command.stdout, r"(?m)^layered: [1-9][\d.]* requests/s, .* 0 errors$")
        self.assertTrue(harness.xspace_files(harness.BUILD / "demo/logdir"))


if __name__ == "__main__":
    harness.main()
