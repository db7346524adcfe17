#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recordings that were changed at random, with their check sums made right again, are replayed by the build with sanitizers, or refused. For some
seconds, or for minutes in make long; CHECK_SEED repeats the cases of an earlier run. What fails is kept in build/mutations. Needs no root."""
import gzip
import os
import random
import struct
import time
import zlib

import harness

OK, _, USAGE, _, _, NOTHING, LOSS, _ = range(8)
SECONDS = 300 if harness.LONG else 8
SAN = harness.BUILD / "san/tfprofctl"
KEPT = harness.BUILD / "mutations"
FILE_HEAD, SECTION_HEAD = 24, struct.Struct("<IIII")  # kind, size, check sum, 0
WORDS = (0, 1, 0x7f, 0xff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 1 << 63, (1 << 64) - 1)
ENVIRONMENT = {"ASAN_OPTIONS": "exitcode=99", "UBSAN_OPTIONS": "halt_on_error=1:exitcode=99:print_stacktrace=1"}
REPORTED = "Sanitizer", "runtime error"
CASE_S = 60


def recordings():
    for path in sorted((harness.ROOT / "tests/golden").glob("*.tfp")):
        yield path.read_bytes()
    for path in sorted((harness.ROOT / "tests/recordings").glob("*.tfp.gz")):
        yield gzip.decompress(path.read_bytes())


def sections(recording):
    """[[kind, content]]"""
    found, at = [], FILE_HEAD
    while at < len(recording):
        kind, size, _, _ = SECTION_HEAD.unpack_from(recording, at)
        at += SECTION_HEAD.size
        found.append([kind, recording[at:at + size]])
        at += (size + 7) & ~7
    return found


def whole(head, parts):
    """A recording of these sections, with right check sums."""
    new = [head]
    for kind, content in parts:
        checksum = zlib.crc32(struct.pack("<II", kind, len(content)) + content)
        new += [SECTION_HEAD.pack(kind, len(content), checksum, 0), content, bytes(-len(content) % 8)]
    return b"".join(new)


class Mutator:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.known = [(recording[:FILE_HEAD], sections(recording)) for recording in recordings()]

    def bytes_changed(self, content):
        changed, r = bytearray(content), self.random
        for _ in range(r.choice((1, 1, 1, 2, 8, 64))):
            at = r.randrange(len(changed))
            how = r.randrange(4)
            if how == 0:
                changed[at] ^= 1 << r.randrange(8)
            elif how == 1:
                changed[at] = r.randrange(256)
            elif how == 2:
                size = r.choice((1, 2, 4, 8))
                at -= at % size
                word = (r.choice(WORDS) % (1 << 8 * size)).to_bytes(size, "little")
                changed[at:at + size] = word[:len(changed) - at]
            else:
                # What a field is somewhere else.
                size = r.choice((2, 4, 8))
                piece = changed[r.randrange(len(changed)) & -size:][:size]
                at &= -size
                changed[at:at + size] = piece[:len(changed) - at]
        return bytes(changed)

    def case(self):
        head, parts = self.random.choice(self.known)
        parts, r = [list(part) for part in parts], self.random
        for _ in range(r.choice((1, 1, 2, 4))):
            how, = r.choices(range(5), (24, 1, 1, 1, 1))
            # Most often in a record: in the other sections most changes are noticed where they are read.
            sizes = [len(content) + 1 for _, content in parts]
            at, = r.choices(range(len(parts)), sizes) if how == 0 and r.randrange(6) else [r.randrange(len(parts))]
            if how == 0 and parts[at][1]:
                parts[at][1] = self.bytes_changed(parts[at][1])
            elif how == 1:
                parts[at][1] = parts[at][1][:r.randrange(len(parts[at][1]) + 1)]
            elif how == 2 and len(parts) > 1:
                del parts[at]
            elif how == 3:
                parts.insert(r.randrange(len(parts) + 1), list(r.choice(r.choice(self.known)[1])))
            else:
                parts[at][0] = r.choice(parts)[0]
        recording = whole(head, parts)
        return recording if r.randrange(20) else self.bytes_changed(recording)


class Mutations(harness.TestCase):
    def test_a_recording_with_anything_in_it_is_replayed_or_refused(self):
        self.assertTrue(SAN.exists(), "make SAN=address,undefined all builds what is tested here")
        seed = int(os.environ.get("CHECK_SEED") or time.time())
        mutator, statuses, end = Mutator(seed), {}, time.monotonic() + SECONDS
        path, requests = self.directory / "a.tfp", self.directory / "requests"
        while time.monotonic() < end:
            recording, number = mutator.case(), sum(statuses.values())
            path.write_bytes(recording)
            logdir = self.directory / f"{number}"
            done = harness.run(SAN, "replay", path, "-o", logdir, "--json", "--slowest", 3, "--requests", requests, timeout=CASE_S, env=ENVIRONMENT)
            statuses[done.status] = statuses.get(done.status, 0) + 1
            if done.status not in (OK, USAGE, NOTHING, LOSS) or any(word in done.stderr for word in REPORTED):
                KEPT.mkdir(parents=True, exist_ok=True)
                kept = KEPT / f"{seed}-{number}.tfp"
                kept.write_bytes(recording)
                self.fail(f"CHECK_SEED={seed}, case {number}, {kept}: ended with {done.status}: {done.stderr[:3000]}")
            self.assertEqual(bool(done.stdout), done.status in (OK, NOTHING, LOSS), done.stderr)
            for file in harness.xspace_files(logdir):
                harness.XSpace(file)
        print(f"     CHECK_SEED={seed}: {sum(statuses.values())} recordings: {statuses.get(OK, 0) + statuses.get(LOSS, 0)} replayed, "
              f"{statuses.get(NOTHING, 0)} with nothing in them, {statuses.get(USAGE, 0)} refused")
        self.assertGreater(statuses.get(OK, 0) + statuses.get(LOSS, 0), 0)
        self.assertGreater(statuses.get(USAGE, 0), 0)


if __name__ == "__main__":
    harness.main()
