#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes out of a recording what only tells where it was made: the host's name, and the directories of files in its plan.
usage: tests/golden/neutral.py FILE.tfp NEW.tfp      with the Python environment of the tests, after `make servers`"""
import pathlib
import struct
import sys
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "build/gen/python"))
import control_pb2  # noqa: E402
import recording_pb2  # noqa: E402

FILE_HEAD = 24
SECTION_HEAD = struct.Struct("<IIII")  # kind, size, check sum, 0
RESULT, PLAN = 6, 65537


def neutral(kind, content):
    if kind == RESULT:
        message = recording_pb2.RecordingResult.FromString(content)
        message.hostname = "server"
        return message.SerializeToString()
    if kind == PLAN:
        message = control_pb2.PlanReply.FromString(content)
        for file in (file for target in message.targets for file in target.files):
            file.path = f"/opt/serving/lib/{pathlib.PurePath(file.path).name}"
        return message.SerializeToString()
    return content


def main(source, destination):
    old = pathlib.Path(source).read_bytes()
    new, at = [old[:FILE_HEAD]], FILE_HEAD
    while at < len(old):
        kind, size, _, _ = SECTION_HEAD.unpack_from(old, at)
        at += SECTION_HEAD.size
        content = neutral(kind, old[at:at + size])
        at += (size + 7) & ~7
        checksum = zlib.crc32(struct.pack("<II", kind, len(content)) + content)
        new += [SECTION_HEAD.pack(kind, len(content), checksum, 0), content, bytes(-len(content) % 8)]
    pathlib.Path(destination).write_bytes(b"".join(new))


main(*sys.argv[1:])
