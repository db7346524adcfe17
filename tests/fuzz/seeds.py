#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes first inputs of fuzzers of what the tree and the build have: recordings, small ELF files, configurations, replies.

usage: tests/fuzz/seeds.py FUZZER DIRECTORY"""
import gzip
import pathlib
import re
import struct
import subprocess
import sys
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORDINGS = ROOT / "tests/golden", ROOT / "tests/recordings"
RECORDS, END = 5, 7
FILE_HEAD, SECTION_HEAD = 24, 16
# Of one seed: libFuzzer has them all in memory, and changes small ones better.
SEED_BYTES = 1 << 16
HTTP1 = b"POST /v1/models/m:predict HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
ANSWER = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
CONFIGURATION = b"""[daemon]
listen = 127.0.0.1:6009
max-duration = 60s
[recorder]
level = 1
last = 30s
[target server]
name = server*
max-overhead = 5
"""


def recordings():
    for directory in RECORDINGS:
        for path in sorted(directory.glob("*.tfp*")):
            data = path.read_bytes()
            yield gzip.decompress(data) if path.suffix == ".gz" else data


def sections(recording):
    at = FILE_HEAD
    while at < len(recording):
        kind, size = struct.unpack_from("<II", recording, at)
        yield kind, recording[at + SECTION_HEAD:at + SECTION_HEAD + size]
        at += SECTION_HEAD + (size + 7) // 8 * 8


def section(kind, data):
    checksum = zlib.crc32(struct.pack("<II", kind, len(data)) + data)
    return struct.pack("<IIII", kind, len(data), checksum, 0) + data + bytes(-len(data) % 8)


def records(data):
    """(kind, bytes) of each; those of variable size are left out."""
    at = 0
    sizes = {2: 16 + 16 + 512 + 96, 3: 16 + 16 + 10 * 208}
    while at + 16 <= len(data):
        kind, size8 = data[at + 12], data[at + 14]
        size = size8 * 8 or sizes.get(kind, 0)
        if not size:
            return
        yield kind, data[at:at + size]
        at += size


def shortened(recording):
    """The recording with few of its records."""
    kept, n = [], 0
    for kind, data in sections(recording):
        if kind == RECORDS:
            few = [record for _, record in records(data)][:200]
            n += len(few)
            data = b"".join(few)
        if kind == END:
            data = struct.pack("<QQ", len(kept), n)
        kept.append(section(kind, data))
    return recording[:FILE_HEAD] + b"".join(kept)


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def grpc_call(path, message=b"hello"):
    fields = b"".join(literal(*f) for f in ((b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"a"),
                                            (b"te", b"trailers"), (b"content-type", b"application/grpc")))
    return frame(1, 4, 1, fields) + frame(0, 1, 1, b"\x00" + struct.pack(">I", len(message)) + message)


def inserted(name, value):
    return b"\x40" + literal(name, value)[1:]


# "/index?key=value" in HPACK's Huffman code, as a path that is put into the table.
CODED_PATH = b"\x44\x8d" + bytes.fromhex("60d5485f3fe752fa83b8e8b4bf")
REQUEST_FIELDS = b"\x83\x86" + literal(b":authority", b"a") + literal(b"te", b"trailers") + literal(b"content-type", b"application/grpc")
BLOCKS = [REQUEST_FIELDS + literal(b":path", b"/a"), REQUEST_FIELDS + inserted(b":path", b"/b?key=value"), b"\xbe" + REQUEST_FIELDS,
          REQUEST_FIELDS + CODED_PATH, REQUEST_FIELDS + b"\x85", literal(b"grpc-status", b"0") + inserted(b"grpc-timeout", b"1S"),
          b"\x20\x3f\xe1\x1f" + REQUEST_FIELDS + literal(b":path", b"/b" * 60)]


def blocks(head):
    """Each alone, and all after each other, with this before its length."""
    each = [head + struct.pack("<H", len(block)) + block for block in BLOCKS]
    return [*each, b"".join(each)]


def pieces(*calls):
    """Calls of the framing fuzzer: (how, bytes)."""
    return b"".join(bytes([how | 128]) + struct.pack("<H", len(data)) + data for how, data in calls)


def of_records():
    """In the form that fuzz_records.c reads: its head of six bytes, how much of the body follows, and that."""
    for recording in recordings():
        out, before = [b"\0"], None
        for kind, data in sections(recording):
            for number, record in records(data) if kind == RECORDS else ():
                time, tid = struct.unpack_from("<QI", record)
                step = min(max(time - (before or time), 0) // 1000, 255)
                before = time
                body = record[16:16 + 255]
                out.append(bytes([number, tid % 8, record[13], record[15], step]) + (b"\0" if number in (1, 11) else b"") +
                           bytes([len(body)]) + body)
        whole = b"".join(out)
        for at in range(0, min(len(out), 4000), 200):
            yield b"\0" + b"".join(out[at + 1:at + 200])
        yield whole[:SEED_BYTES]


def of_elf():
    for path in sorted((ROOT / "build/fixtures").glob("*")):
        if path.is_file() and path.read_bytes()[:4] == b"\x7fELF" and path.stat().st_size < SEED_BYTES * 4:
            small = path.with_suffix(".seed")
            subprocess.run(["strip", "-o", small, path], check=True)
            yield small.read_bytes()
            small.unlink()
            yield path.read_bytes()


def of_code():
    for path in (ROOT / "build/tfprofctl", ):
        data = path.read_bytes()
        for at in range(0x5000, min(len(data), 0x25000), 512):
            yield b"\x3f" + data[at:at + 256]


MESSAGE, CONNECT, CLOSE, PROVER, PROCESS, SIDEBAND, NOTE, TIME, RULES, BROKER, KERNEL = range(11)
REQUESTS = re.findall(r"^\tBROKER_(\w+),$", (ROOT / "daemon/broker/message.h").read_text().split("};")[0], re.M)


def message(request, id=0, pid=0, index=0, file=0, kinds=0, count=0, kind=0, start=0, end=0, value=b"", fds=()):
    """In the form that fuzz_broker.c reads."""
    return struct.pack("<BBBBBBBBBBHHB", MESSAGE, REQUESTS.index(request), len(fds) << 3, id, pid, index, file, kinds, count, kind, start, end,
                       len(value)) + value + bytes(fds)


def of_broker():
    client = bytes([CONNECT, 0]) + message("ACCEPT", index=0)
    capture = client + message("CAPTURE")
    planned = message("OPEN", pid=2, start=0, end=1) + message("PLAN", value=b"\xff" * 8)
    # A site of each of the first rows, most of them good ones.
    proof = bytes([PROVER, 0, 0, 40, 15]) + b"".join(bytes([0x30 if row % 9 == 0 else 0, row, row]) for row in range(40)) + b"\0"
    sites = planned + proof + message("PLAN", value=b"\xff" * 8) + message("SITES", index=1, value=b"\xff" * 5)
    attached = capture + message("TARGET", pid=0) + message("TARGET", pid=2) + sites + message("ATTACH")
    changes = [bytes([PROCESS, 2, 4, SIDEBAND, 3, 2, 0]), bytes([PROCESS, 2, 1, SIDEBAND, 1, 2, 0]), bytes([PROCESS, 2, 5]), bytes([RULES, 5, 0]), bytes([RULES, 0, 39]), bytes([RULES, 0, 64]),
               bytes([CLOSE, 0, 2]), bytes([TIME, 200, 0]), bytes([KERNEL, 8, 0, 2, 0, 4, 0, 0, 0]), message("CLIENT_GONE")]
    yield b"\0" + attached + message("NAME_THREADS") + message("SHED", kind=2) + message("FORGET") + message("END")
    for change in changes:
        yield b"\0" + attached + change + message("ATTACH") + message("TARGET", pid=4) + message("MODULE", index=1) + message("END")
    counter = bytes([PROVER, 0, 24, 20, 15]) + b"".join(bytes([0x88, row, 1, 0]) for row in range(20)) + b"\0"
    yield b"\0" + capture + message("TARGET", pid=2) + planned + counter + planned + message("SITES", value=b"\xff" * 5) + message("ATTACH")
    yield b"\0" + client + bytes([BROKER]) + message("RETURN", fds=b"\0") + message("PEER") + message("CAPTURE") + message("MAY", pid=1)
    yield b"\0" + bytes([CONNECT, 1]) + message("ACCEPT", index=1) + message("CERTIFY", value=b"root\0") + capture[2:] + bytes([RULES, 64, 0])
    yield b"\0" + bytes([CONNECT, 2]) + message("ACCEPT", index=2) + message("CAPTURE") + message("UNLISTEN", index=2) + message("LISTEN", index=2)
    yield b"\x08" + message("CAPTURE", id=255) + message("TARGET", pid=2) + message("PREFLIGHT", pid=2) + message("CALIBRATE") + message("MODE")
    yield (b"\x08" + message("CAPTURE", id=255) + message("TARGET", pid=2) + message("SNAPSHOT", pid=2, count=9, value=b"b-1\0") +
           message("SNAPSHOT_END", count=1, value=b"b-1\0") + message("SNAPSHOT", value=b"a\0"))
    yield b"\0" + planned + message("FUNCTIONS", fds=b"\0") + bytes([PROVER, 0, 0, 0, 0, 0, PROVER, 0, 0, 0, 0, 0]) + message("FUNCTIONS")
    yield b"\0" + client + message("MAPS", pid=2) + message("BIRTH", pid=2) + message("NOTIFY") + message("CLOSE") + bytes([NOTE, 1, 1, 0, 0, 3]) + b"a\nb"
    yield b"\0" + planned + bytes([PROVER, 0, 2]) + bytes([PROVER, 0, 1, 5]) + message("PLAN", value=b"\xff" * 8) + message("CLOSE")


SEEDS = {
    "broker": of_broker,
    "recording": lambda: (shortened(r) for r in recordings()),
    "records": of_records,
    "elf": of_elf,
    "code": of_code,
    "config": lambda: [CONFIGURATION],
    "maps": lambda: [pathlib.Path("/proc/self/maps").read_bytes()],
    "hpack": lambda: blocks(b"\1"),
    "fields": lambda: blocks(b""),
    "rtti": lambda: [b"\0", struct.pack("<I", 0x100)[:3] + b"\3" + bytes(8)],
    "usdt": lambda: [b"-4@%edi 8@16+table(%rip) 1@-8(%rsp,%rcx,8)", b"8@%fs:-16(%rax) -1@$-5 2@%ah"],
    "requests": lambda: [path + b"\0" for path in re.findall(rb'"(/[^"]+/[^"]+)"', (ROOT / "daemon/rpc/service.c").read_bytes())],
    "session": lambda: [bytes([2]) + grpc_call(path) for path in (b"/a", b"/b", b"/c")],
    "framing": lambda: [pieces((0 | 8, HTTP1), (1 | 8, ANSWER)), pieces((0 | 8, HTTP1 * 3), (1 | 4, ANSWER * 3)),
                        pieces((8, PREFACE + frame(4, 0, 0, b"")), (8, grpc_call(b"/a")), (9, frame(1, 4, 1, b"\x88")),
                               (9, frame(0, 0, 1, b"x" * 9)), (9, frame(1, 5, 1, literal(b"grpc-status", b"0"))))],
}


def main():
    directory = pathlib.Path(sys.argv[2])
    directory.mkdir(parents=True, exist_ok=True)
    for i, data in enumerate(SEEDS.get(sys.argv[1], list)()):
        (directory / f"seed-{i}").write_bytes(data[:SEED_BYTES * 4])


main()
