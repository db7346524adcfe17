#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The broker against a front that was taken over (tests/hostile): what happens to the processes of the host is read from their memory. As root."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest.mock

import harness
import test_lifecycle

HOSTILE = harness.BUILD / "fixtures/hostile_front"
LIBRARY = test_lifecycle.LIBRARY
TLS = "libssl.so.3"
MESSAGES = 10_000


def instruction_offsets(path):
    """Where, as offsets in the file, the instructions of an ELF file's code begin, as objdump decodes them."""
    headers = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True, check=True).stdout
    loads = [tuple(int(word, 16) for word in fields) for fields in re.findall(r"LOAD\s+(0x\w+) (0x\w+) 0x\w+ (0x\w+) 0x\w+ R E", headers)]
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True).stdout
    found = set()
    for address in (int(word, 16) for word in re.findall(r"^\s+([0-9a-f]+):", text, re.MULTILINE)):
        found |= {offset + address - begin for offset, begin, size in loads if begin <= address < begin + size}
    return found


class HostileFront(harness.TestCase):
    def test_whatever_it_sends_only_instructions_of_the_packs_functions_are_probed(self):
        daemon = self.start(harness.Daemon)
        # Both are read from a directory that every user can read.
        public = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        public.chmod(0o755)
        for name in "throwing", LIBRARY.name:
            shutil.copy(LIBRARY.parent / name, public)
        # Nobody may have its decrypted requests, which the front asks for by the sites in this library.
        self.enterContext(unittest.mock.patch.dict(os.environ, LD_PRELOAD=TLS))
        own = self.start(test_lifecycle.Fixture, directory=public, user=test_lifecycle.STRANGER)
        foreign = self.start(test_lifecycle.Fixture, directory=public)
        harness.wait_target(daemon, own.pid)
        plan = harness.ctl(daemon, "plan", "--pid", own.pid, "--json").json["targets"][0]
        files = [pathlib.Path(file["path"]).name for file in plan["files"]]
        by_file = {name: {probe["offset"] for probe in plan["probes"] if files[probe["file"]] == name and probe["class"] != "refused"}
                   for name in files}
        sites = by_file[LIBRARY.name]
        self.assertTrue(by_file[TLS])
        self.assertLessEqual(sites, instruction_offsets(LIBRARY))
        daemon.stop()
        directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        directory.chmod(0o755)
        seed = int(os.environ.get("CHECK_SEED") or time.time())
        hostile = self.start(harness.Process, "hostile_front", [HOSTILE, directory, test_lifecycle.STRANGER, own.pid, foreign.pid, MESSAGES, seed])
        changed = set()
        end = time.monotonic() + 120
        while hostile.running() and time.monotonic() < end:
            changed |= {offset for offset, _ in test_lifecycle.changed_offsets(own.pid, LIBRARY.name)}
            self.assertEqual(test_lifecycle.changed_offsets(foreign.pid, LIBRARY.name), [])
            self.assertEqual(test_lifecycle.changed_offsets(own.pid, TLS), [])
        print(f"     CHECK_SEED={seed}: probes at {len(changed)} of {len(sites)} sites")
        self.assertEqual((hostile.wait(10), hostile.line(r"(\d+) violations")[1]), (0, "0"), hostile.stdout() + hostile.stderr())
        self.assertTrue(changed)
        # Of snapshots there are as many as root configured, under names that the broker made.
        snapshots = os.listdir(directory / "snapshots")
        self.assertIn(len(snapshots), (1, 2, 3))
        for name in snapshots:
            self.assertRegex(name, r"^\d{8}T\d{6}\.\d{3}Z-(slow|late)-\d+\.tfp$")
        self.assertLessEqual(changed, sites)
        answered, refused = map(int, hostile.line(r"(\d+) answered, (\d+) refused").groups())
        self.assertGreater(answered + refused, MESSAGES)
        harness.wait_until(lambda: not test_lifecycle.changed_offsets(own.pid, LIBRARY.name), 5, "no breakpoint is left")
        # They have computed what they always do.
        for fixture in own, foreign:
            status, _, blocks, wrong = fixture.finish()
            self.assertEqual((status, wrong), (0, 0))
            self.assertGreater(blocks, 20)


if __name__ == "__main__":
    harness.main()
