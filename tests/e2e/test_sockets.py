#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a capture makes of bytes at the sockets of a process that reads and writes them in every way that there is: the right requests, no
others, and nothing of what they carry. As root."""
import contextlib
import itertools
import json
import os
import pathlib
import random
import re
import select
import socket
import statistics
import struct
import subprocess
import time
import unittest.mock

import harness
import kernel_features
from test_lifecycle import Lifecycle

FIXTURES = harness.BUILD / "fixtures"
OK, LOSS = 0, 6
READS = ("read", "readv", "recv", "recvfrom", "recvmsg")
WRITES = ("write", "writev", "send", "sendto", "sendmsg")
# In each value that nobody but the two sides has to know.
CANARY = "CANARY"
# Where it may be in HPACK's code: in that one alone, three bytes would be left to look for.
CODED = CANARY * 2
SECRETS = (b"x-secret: CANARY-header\r\nCookie: CANARY=1\r\n", b"CANARY-body.")
ANSWER_S = 20
SLOWER_CALLS = "^Each system call of every process took .*longer: "
READ = 0  # asm/unistd_64.h


class Target(harness.Process):
    """sockets of tests/fixtures: tell() has it do one thing."""

    count = 0

    def __init__(self, directory):
        self.names, self.commands, self.answers = self.make_fifos(directory), None, None
        super().__init__("sockets", [FIXTURES / "sockets", *self.names])
        self.wait_ready(lambda: self.line("ready"))
        self.open_fifos()

    @classmethod
    def make_fifos(cls, directory):
        Target.count += 1
        names = [directory / f"{Target.count}.{kind}" for kind in ("commands", "answers")]
        for name in names:
            os.mkfifo(name)
        return names

    def open_fifos(self):
        self.commands, self.answers = open(self.names[0], "w"), open(self.names[1])

    def tell(self, *words):
        print(*words, file=self.commands, flush=True)
        if not select.select([self.answers], [], [], ANSWER_S)[0]:
            self.fail(f"no answer to {words}")
        return self.answers.readline().rstrip("\n")

    def done(self, *words):
        """The numbers that it answers with."""
        answer = self.tell(*words)
        if answer.startswith("error") or not answer:
            self.fail(f"{words}: {answer or 'ended'}")
        return [int(word) for word in answer.split()]

    def quit(self):
        """Ends by itself, with all that it has done."""
        self.commands.close()
        self.answers.close()

    def stop(self, timeout=harness.STOP_TIMEOUT_S):
        if self.commands:
            self.quit()
        return super().stop(timeout)


class Child(Target):
    """A child of a Target."""

    def __init__(self, directory, parent):
        self.names = self.make_fifos(directory)
        self.pid, = parent.done("fork", *self.names)
        self.name, self.stderr_path = "child", parent.stderr_path
        self.open_fifos()


class Connection:
    """A connection to a target: client is this side's socket, fd the target's descriptor."""

    def __init__(self, target, listener, where, family="4", accept="accept", room=None):
        self.target = target
        if family == "unix":
            self.client = socket.socket(socket.AF_UNIX)
            self.client.connect(where)
            self.port = 0
        else:
            self.client = socket.socket(socket.AF_INET if family == "4" else socket.AF_INET6)
            if room:
                self.client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
            self.client.settimeout(10)
            self.client.connect(("127.0.0.1" if family == "4" else "::1", where))
            self.client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.port = self.client.getsockname()[1]
        self.client.settimeout(10)
        self.fd, = target.done(accept, listener)

    def read(self, data, call="read", sizes=None, thread=()):
        """The target reads by one call what the client has sent; sizes are those of its buffers."""
        sizes = sizes or [len(data)]
        answer = self.target.tell(*thread, call, self.fd, ",".join(map(str, sizes)))
        if answer != "0x" + data.hex():
            raise AssertionError(f"{call} of {sizes}: {answer[:200]}, not {data.hex()[:200]}")

    def feed(self, data, cuts=(), call="read", thread=()):
        """The client sends, and the target reads; between two cuts by one call each."""
        for part in parts(data, cuts):
            self.client.sendall(part)
            self.read(part, call, thread=thread)

    def answer(self, data, cuts=(), call="write", pieces=(), thread=()):
        for part in parts(data, cuts):
            sent, = self.target.done(*thread, call, self.fd, ",".join(p.hex() for p in parts(part, pieces)))
            got = b""
            while len(got) < len(part) and (more := self.client.recv(len(part) - len(got))):
                got += more
            if (sent, got) != (len(part), part):
                raise AssertionError(f"{call}: {sent} and {got!r}, not {part!r}")

    def close(self):
        self.target.done("close", self.fd)
        self.client.close()


def parts(data, cuts):
    """The bytes between two places each."""
    edges = [0, *cuts, len(data)]
    return [data[a:b] for a, b in zip(edges, edges[1:]) if b > a]


def request(path, method="POST", body=SECRETS[1], headers=b"", version="1.1", query="?q=CANARY-query&x"):
    length = b"" if body is None else b"Content-Length: %d\r\n" % len(body)
    return f"{method} {path}{query} HTTP/{version}\r\nHost: a\r\n".encode() + SECRETS[0] + headers + length + b"\r\n" + (body or b"")


def answer(status=200, body=SECRETS[1] * 2, headers=b"", version="1.1"):
    length = b"" if body is None else b"content-length: %d\r\n" % len(body)
    return f"HTTP/{version} {status} Some Reason\r\n".encode() + SECRETS[0] + headers + length + b"\r\n" + (body or b"")


CHUNKED = b"Transfer-Encoding: chunked\r\n"


def chunks(*sizes, extension=b";name=\"CANARY; 5\"", trailers=b"X-Trailer: CANARY\r\n"):
    # What seems to be an end within a chunk is none.
    data = (b"CANARY\r\n\r\n0\r\n\r\n5\r\n" * 9)[:100]
    return b"".join(b"%X%s\r\n%s\r\n" % (n, extension, (data * 100)[:n]) for n in sizes) + b"0" + extension + b"\r\n" + trailers + b"\r\n"


class Sockets(Lifecycle):
    """Each test has one capture: what happens in it, and what it must show."""

    programs = harness.OUT
    # Whether the end of the process, too, closes its connections.
    sees_exit = kernel_features.follows_at_sockets()
    # Whether a call of a socket can have begun before the capture.
    sees_waiting = kernel_features.has_socket_tracepoints() or not kernel_features.follows_at_sockets()
    # In every capture.
    warned = () if kernel_features.follows_at_sockets() else (SLOWER_CALLS,)

    def setUp(self):
        super().setUp()
        patch = unittest.mock.patch.object(harness, "OUT", self.programs)
        patch.start()
        self.addCleanup(patch.stop)
        self.daemon = self.start(harness.Daemon)
        self.target = self.start(Target, self.directory)
        self.listener, self.port = self.target.done("listen", "4")
        self.recording = self.directory / "a.tfp"
        self.expected = {}

    @contextlib.contextmanager
    def capturing(self, *others):
        """A capture of what is done within, of the target and of others; it ends with them."""
        targets = [self.target, *others]
        for target in targets:
            harness.wait_target(self.daemon, target.pid)
        pids = [word for target in targets for word in ("--pid", target.pid)]
        argv = [harness.OUT / "tfprofctl", "--daemon", f"unix:{self.daemon.socket}", "capture", *pids, "--duration", "60s", "--level", 1,
                "-o", self.directory / "log", "--record", self.recording]
        process = subprocess.Popen([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            self.wait_window(self.daemon)
            # A capture without any reports that nothing was captured.
            self.target.done("run")
            yield
            for target in targets:
                target.quit()
            stdout, stderr = process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            process.stderr.close()
        self.assertEqual(process.returncode, LOSS, stderr)
        listed = self.directory / "requests.ndjson"
        replayed = harness.run(harness.OUT / "tfprofctl", "replay", self.recording, "--requests", listed, "--json", "-o", self.directory / "log")
        self.assertEqual((replayed.status, replayed.stderr), (LOSS, ""))
        self.requests = [json.loads(line) for line in listed.read_text().splitlines()]
        for r in self.requests:
            r.update({who: (r["threads"][who] or {}).get("tid") for who in ("read", "write")}, runs=len(r["runs"]),
                     **{key: r[key] or 0 for key in ("stream", "local_port", "peer_port")})
        self.warnings = [w for w in json.loads(replayed.stdout)["warnings"] if not re.match(r"Process \d+ \(sockets\) ended", w)]
        self.check_secrets(stdout + stderr)

    def check_secrets(self, printed):
        """Nothing that a message carries comes out, plain or in HPACK's code at any place in a byte."""
        files = [self.recording, self.directory / "requests.ndjson", *harness.xspace_files(self.directory / "log")]
        coded = [bytes_of_bits("1" * shift + huffman_bits(CODED))[1:-1] for shift in range(8)]
        for name, data in [("output", printed.encode()), *((str(f), f.read_bytes()) for f in files)]:
            for secret in (CANARY.encode(), *coded):
                self.assertNotIn(secret, data, f"in {name}")

    def connect(self, **how):
        return Connection(self.target, self.listener, self.port, **how)

    def expect(self, path, **what):
        """A request with this path, and these other values: whole unless they state otherwise."""
        self.assertNotIn(path, self.expected)
        self.expected[path] = {"protocol": "http1", "method": "POST", "status": 200, "pid": self.target.pid, "cut_start": False,
                               "cut_end": False, "lost": False, "reset": False, **what}

    def exchange(self, connection, path, asked=None, answered=None, feed=None, reply=None, **what):
        asked, answered = asked or request(path), answered or answer()
        connection.feed(asked, **(feed or {}))
        connection.answer(answered, **(reply or {}))
        self.expect(path, **{"bytes_in": len(asked), "bytes_out": len(answered), "peer_port": connection.port, **what})

    def check(self, warnings=(), unread=()):
        """What was to be seen was seen, and nothing else. warnings are patterns; unread the paths of requests that were answered before."""
        warnings = [*warnings, *self.warned]
        found = {r["path"]: r for r in self.requests}
        self.assertEqual(sorted(map(str, (r["path"] for r in self.requests))), sorted(map(str, self.expected)))
        for path, expected in self.expected.items():
            self.assertEqual({key: found[path][key] for key in expected}, expected, path)
        for r in self.requests:
            times = [r[key] for key in ("start_ns", "read_start_ns", "read_end_ns", "write_start_ns", "end_ns")]
            if not any(r[flag] for flag in ("cut_start", "cut_end", "reset", "lost")):
                times = [t for t in times if t or r["path"] not in unread]
                self.assertEqual(times, sorted(times), r)
                self.assertGreater(times[0], 0)
        # In an emulator programs take so long that interrupts often meet them. What is missing then would be found above.
        allowed = [*warnings, *([harness.SKIPPED] if kernel_features.is_emulated() else [])]
        self.assertEqual([w for w in self.warnings if not any(re.search(text, w) for text in allowed)], [])
        for text in warnings:
            self.assertTrue(any(re.search(text, w) for w in self.warnings), (text, self.warnings))


class Http1(Sockets):
    def test_every_call_that_reads_or_writes_is_followed(self):
        with self.capturing():
            connection = self.connect()
            for read in READS:
                for write in WRITES:
                    self.exchange(connection, f"/{read}/{write}", feed={"call": read}, reply={"call": write})
            for path, give in (("/sendfile", "sendfile"), ("/splice_to", "splice_to")):
                head, data = answer(body=SECRETS[1] * 500).split(b"\r\n\r\n")
                connection.feed(request(path))
                connection.answer(head + b"\r\n\r\n", call="send")
                connection.answer(data, call=give)
                self.expect(path, bytes_in=len(request(path)), bytes_out=len(head) + 4 + len(data))
            asked = request("/splice", body=SECRETS[1] * 300)
            head = asked.index(b"\r\n\r\n") + 4
            connection.feed(asked[:head])
            connection.feed(asked[head:], call="splice")
            connection.answer(answer())
            self.expect("/splice", bytes_in=len(asked), bytes_out=len(answer()))
        self.check()
        # One connection, one number each.
        self.assertEqual({r["connection"] for r in self.requests}, {self.requests[0]["connection"]})
        self.assertEqual([r["stream"] for r in self.requests], list(range(1, len(self.requests) + 1)))

    def test_system_calls_are_followed_only_where_sockets_cannot_be(self):
        with self.capturing():
            self.exchange(self.connect(), "/seen")
            own, holders = set(self.daemon.pids()), harness.bpf_holders()
            programs = {entry.get("name") for key, entry in harness.bpf_objects().items() if holders.get(key, set()) & own}
        self.check()
        at_sockets, by_tracepoints = not self.warned, kernel_features.has_socket_tracepoints()
        self.assertEqual({"on_sent", "on_received"} <= programs, at_sockets and by_tracepoints)
        self.assertEqual({"on_tcp_sent", "on_tcp_received", "on_unix_sent", "on_unix_received"} <= programs, at_sockets and not by_tracepoints)
        self.assertEqual(bool({"on_sys_enter", "on_sys_exit"} & programs), not at_sockets)

    def every_cut(self, name, asked, answered, **what):
        """Requests in two calls, then answers, cut at every byte; then all of it in calls of a byte, and in buffers of a byte."""
        def path(kind, at):
            return f"/{name}/{kind}/{at:05}"
        connection, size = self.connect(), len(asked(path("in", 0)))
        for at in range(1, size):
            self.exchange(connection, path("in", at), asked(path("in", at)), answered, feed={"cuts": [at]}, **what)
        for at in range(1, len(answered)):
            self.exchange(connection, path("out", at), asked(path("out", at)), answered, reply={"cuts": [at]}, **what)
        one, data = path("one", 0), asked(path("one", 0))
        self.exchange(connection, one, data, answered, feed={"cuts": range(1, len(data))}, reply={"cuts": range(1, len(answered))}, **what)
        for kind, sizes in (("ones", [1] * 900), ("zeros", [0, 3, 0, 5] * 200), ("odd", [7, 1, 13] * 90)):
            data, taken = asked(path(kind, 0)), []
            for n in sizes:
                taken.append(min(n, len(data) - sum(taken)))
            connection.client.sendall(data)
            connection.read(data, "readv" if kind == "ones" else "recvmsg", [n for n in taken if n or kind == "zeros"][:900])
            edges = [sum(sizes[:i]) for i in range(1, len(sizes)) if sum(sizes[:i]) < len(answered)]
            connection.answer(answered, call="writev" if kind == "ones" else "sendmsg", pieces=edges)
            self.expect(path(kind, 0), bytes_in=len(data), bytes_out=len(answered), **what)

    def test_heads_are_read_however_calls_divide_them(self):
        with self.capturing():
            self.every_cut("length", request, answer())
        self.check()

    def test_chunks_are_read_however_calls_divide_them(self):
        def asked(path):
            return request(path, body=None, headers=CHUNKED) + chunks(1, 17, 300)
        with self.capturing():
            self.every_cut("chunks", asked, answer(body=None, headers=CHUNKED) + chunks(12, 0xab))
        self.check()

    def test_many_messages_in_one_call_are_distinguished(self):
        paths = [f"/many/{i}" for i in range(60)]
        asked = [request(p) if i % 3 else request(p, body=None, headers=CHUNKED) + chunks(5, 6) for i, p in enumerate(paths)]
        answered = [answer(400 + i) if i % 2 else answer(400 + i, None, CHUNKED) + chunks(i + 1) for i in range(60)]
        with self.capturing():
            connection = self.connect()
            connection.feed(b"".join(asked))
            connection.answer(b"".join(answered))
            for i, path in enumerate(paths):
                self.expect(path, status=400 + i, bytes_in=len(asked[i]), bytes_out=len(answered[i]), stream=i + 1)
        self.check()

    def test_pipelined_requests_get_their_answers_in_order(self):
        paths = [f"/pipelined/{i}" for i in range(40)]
        with self.capturing():
            connection = self.connect()
            connection.feed(b"".join(map(request, paths)))
            for i, path in enumerate(paths):
                connection.answer(answer(400 + i))
                self.expect(path, status=400 + i, bytes_in=len(request(path)), bytes_out=len(answer(400 + i)), stream=i + 1)
            # Across calls, with the next one's beginning behind the end of one.
            connection.feed(request("/cut/0") + request("/cut/1")[:20])
            connection.answer(answer())
            connection.feed(request("/cut/1")[20:])
            connection.answer(answer())
            for path in ("/cut/0", "/cut/1"):
                self.expect(path, bytes_in=len(request(path)), bytes_out=len(answer()))
        self.check()

    def test_forms_of_messages(self):
        with self.capturing():
            connection = self.connect()
            # Bytes that were only looked at come once.
            connection.client.sendall(request("/peek"))
            connection.read(request("/peek"), "peek")
            connection.read(request("/peek")[:9], "peek")
            connection.read(request("/peek"), "recv")
            connection.answer(answer())
            self.expect("/peek", bytes_in=len(request("/peek")), bytes_out=len(answer()))
            # Answers without a body, whatever length they state.
            for method, status in (("HEAD", 200), ("GET", 304), ("GET", 204), ("OPTIONS", 200), ("DELETE", 404), ("PATCH", 500)):
                path, body = f"/bodies/{method}/{status}", None if method in ("HEAD", "GET") else b"{}"
                answered = answer(status, body) if body else answer(status, None, b"Content-Length: 1000\r\n" * (status != 204))
                self.exchange(connection, path, request(path, method, None), answered, method=method, status=status)
            # Interim answers are not the answer.
            asked = request("/continue", headers=b"Expect: 100-continue\r\n")
            head = asked.index(b"\r\n\r\n") + 4
            connection.feed(asked[:head])
            connection.answer(b"HTTP/1.1 100 Continue\r\n\r\n")
            connection.feed(asked[head:])
            connection.answer(b"HTTP/1.1 103 Early Hints\r\nLink: CANARY\r\n\r\n" + answer(201))
            self.expect("/continue", status=201, bytes_in=len(asked), bytes_out=len(answer(201)))
            # Names in any case, values with any space, bare line feeds, lengths of none.
            for i, length in enumerate((b"content-LENGTH:5", b"CONTENT-length:\t 5 ", b"Content-Length:          5")):
                self.exchange(connection, f"/length/{i}", request(f"/length/{i}", body=None, headers=length + b"\r\n") + b"12345",
                              answer(body=None, headers=length + b"\r\n") + b"12345")
            asked = request("/line-feeds").replace(b"\r\n", b"\n")
            self.exchange(connection, "/line-feeds", asked, answer().replace(b"\r\n", b"\n"))
            self.exchange(connection, "/empty", request("/empty", body=b""), answer(body=b""))
            for i, extension in enumerate((b" ;a=b", b"\t; a", b";" + b"x" * 300)):
                self.exchange(connection, f"/extension/{i}", request(f"/extension/{i}", body=None, headers=CHUNKED) + chunks(3, extension=extension))
            # An empty line before a request is allowed.
            connection.feed(b"\r\n" + request("/empty-line"))
            connection.answer(answer())
            self.expect("/empty-line", bytes_in=len(request("/empty-line")), bytes_out=len(answer()))
            # Longer than what is kept of a line.
            long = "/long/" + "x" * 400
            self.exchange(connection, long, request(long), answer())
            self.expected[("POST " + long)[5:160]] = self.expected.pop(long)
            big = {"cuts": range(100, 240000, 20000)}
            self.exchange(connection, "/big", request("/big", body=SECRETS[1] * 20000), answer(body=SECRETS[1] * 20000), big, big)
            self.exchange(connection, "/after", status=200)
        self.check()

    def test_answers_that_end_with_the_connection(self):
        with self.capturing():
            for i, (how, version) in enumerate((("close", "1.0"), ("shutdown", "1.0"), ("close", "1.1"))):
                path = f"/close/{i}"
                connection = self.connect()
                asked, answered = request(path, "GET", None, version=version), answer(body=None, version=version) + SECRETS[1] * 99
                connection.feed(asked)
                connection.answer(answered, cuts=[20, 300, 700])
                time.sleep(0.01)
                self.target.done(*(("close", connection.fd) if how == "close" else ("shutdown", connection.fd, 1)))
                self.expect(path, method="GET", bytes_in=len(asked), bytes_out=len(answered))
                self.assertEqual(connection.client.recv(10), b"")
        self.check()
        # Its end is when its last bytes were sent.
        self.assertTrue(all(r["end_ns"] - r["write_start_ns"] < 1e9 for r in self.requests))

    def test_a_client_that_shuts_its_side_down_is_answered(self):
        with self.capturing():
            for at in (3, 30, 150, None):
                connection, path = self.connect(), f"/half/{at}"
                asked = request(path)
                connection.client.sendall(asked[:at])
                if at:
                    connection.read(asked[:at])
                    connection.client.sendall(asked[at:])
                connection.client.shutdown(socket.SHUT_WR)
                # With more room than there are bytes: the end is seen by the same call.
                connection.read(asked[at or 0:], sizes=[10000])
                connection.answer(answer())
                self.expect(path, bytes_in=len(asked), bytes_out=len(answer()))
        self.check()

    def test_aborted_requests(self):
        with self.capturing():
            # The server closes without an answer, in the middle of the request, and in that of the answer.
            first, middle, last = self.connect(), self.connect(), self.connect()
            first.feed(request("/unanswered"))
            first.close()
            middle.feed(request("/half-read")[:60])
            middle.close()
            last.feed(request("/half-answered"))
            last.answer(answer()[:40])
            last.close()
            for path in ("/unanswered", "/half-read"):
                self.expect(path, reset=True, status=None)
            self.expect("/half-answered", reset=True)
            # An answer before the request is read is the whole answer.
            early = self.connect()
            early.feed(request("/early")[:100])
            early.answer(answer(413))
            early.close()
            self.expect("/early", status=413)
        self.check(unread=["/early"])

    def test_a_descriptor_of_several_may_be_closed(self):
        with self.capturing():
            connection = self.connect()
            connection.feed(request("/dup")[:50])
            again, = self.target.done("dup", connection.fd)
            self.target.done("close", connection.fd)
            connection.fd = again
            connection.feed(request("/dup")[50:])
            connection.answer(answer())
            self.expect("/dup", bytes_in=len(request("/dup")), bytes_out=len(answer()))
        self.check()

    def test_a_read_that_waits_when_the_capture_begins(self):
        connection = self.connect()
        child = Child(self.directory, self.target)
        print("read_waiting", connection.fd, len(request("/waited")), file=child.commands, flush=True)
        harness.wait_until(lambda: pathlib.Path(f"/proc/{child.pid}/syscall").read_text().startswith(f"{READ} {connection.fd:#x} "), 10,
                           "the child waits in read()")
        with self.capturing(child):
            connection.client.sendall(request("/waited"))
            self.assertEqual(child.answers.readline(), f"0x{request('/waited').hex()}\n")
            connection.target = child
            connection.answer(answer())
            if self.sees_waiting:
                self.expect("/waited", pid=child.pid)
            else:
                self.expect(None, pid=child.pid, method=None, cut_start=True)
            self.exchange(connection, "/next", pid=child.pid)
        self.check()

    def test_requests_have_their_threads_and_runs(self):
        with self.capturing():
            connection = self.connect()
            for i in range(5):
                connection.feed(request(f"/run/{i}"))
                for _ in range(i):
                    self.target.done("run")
                connection.answer(answer())
                self.expect(f"/run/{i}", runs=i, attribution="exact" if i else "none", read=self.target.pid, write=self.target.pid)
            connection.feed(request("/thread"), thread=("other",))
            connection.answer(answer(), thread=("other",))
            self.expect("/thread")
        self.check()
        thread, = (r for r in self.requests if r["path"] == "/thread")
        self.assertEqual(len({thread["read"], thread["write"], self.target.pid}), 3)


# Of HPACK's code (RFC 7541, appendix B): what these tests need.
CODES = {"0": "00000", "1": "00001", "2": "00010", "a": "00011", "c": "00100", "e": "00101", "i": "00110", "o": "00111",
         "s": "01000", "t": "01001", "-": "010110", ".": "010111", "/": "011000", "3": "011001", "4": "011010", "5": "011011",
         "6": "011100", "7": "011101", "8": "011110", "9": "011111", "=": "100000", "A": "100001", "_": "100010", "b": "100011",
         "d": "100100", "f": "100101", "g": "100110", "h": "100111", "l": "101000", "m": "101001", "n": "101010", "p": "101011",
         "r": "101100", "u": "101101", ":": "1011100", "B": "1011101", "C": "1011110", "D": "1011111", "E": "1100000",
         "F": "1100001", "G": "1100010", "H": "1100011", "I": "1100100", "J": "1100101", "K": "1100110", "L": "1100111",
         "M": "1101000", "N": "1101001", "O": "1101010", "P": "1101011", "Q": "1101100", "R": "1101101", "S": "1101110",
         "T": "1101111", "U": "1110000", "V": "1110001", "W": "1110010", "Y": "1110011", "j": "1110100", "k": "1110101",
         "q": "1110110", "v": "1110111", "w": "1111000", "x": "1111001", "y": "1111010", "z": "1111011", "&": "11111000",
         "X": "11111100", "Z": "11111101", "?": "1111111100", "$": "1111111111001", "~": "1111111111101"}


def huffman_bits(text):
    return "".join(CODES[c] for c in text)


def bytes_of_bits(bits):
    bits += "1" * (-len(bits) % 8)
    return bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))


def integer(value, bits, first):
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    data, value = bytes([first | most]), value - most
    while value >= 128:
        data, value = data + bytes([value & 127 | 128]), value >> 7
    return data + bytes([value])


def string(text, huffman=False):
    data = bytes_of_bits(huffman_bits(text)) if huffman else text.encode()
    return integer(len(data), 7, 0x80 if huffman else 0) + data


def indexed(index):
    return integer(index, 7, 0x80)


def literal(name, value, huffman=False, insert=False, never=False):
    """A field by the index, or the text, of its name."""
    first, bits = (0x40, 6) if insert else (0x10 if never else 0, 4)
    index = name if isinstance(name, int) else 0
    return integer(index, bits, first) + (b"" if index else string(name, huffman)) + string(value, huffman)


METHOD_GET, METHOD_POST, PATH_ROOT, STATUS_200 = indexed(2), indexed(3), indexed(4), indexed(8)
PATH, STATUS, DYNAMIC = 4, 8, 62
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, HAS_PRIORITY = 1, 1, 4, 8, 0x20
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
QUERY = f"?q={CODED}"


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def h2_request(stream, path, huffman=False, insert=False, data=SECRETS[1], method=METHOD_POST, query=QUERY):
    block = method + literal(PATH, path + query, huffman, insert) + literal("x-secret", f"{CODED}-header", huffman)
    block += literal(58, f"{CODED}-agent", huffman)
    head = frame(HEADERS, END_HEADERS | (0 if data else END_STREAM), stream, block)
    return head + (frame(DATA, END_STREAM, stream, data) if data else b"")


def h2_answer(stream, status=STATUS_200, grpc=None, data=SECRETS[1] * 3, huffman=False):
    head = frame(HEADERS, END_HEADERS, stream, status + literal("x-secret", CODED, huffman))
    if grpc is None:
        return head + frame(DATA, END_STREAM, stream, data)
    trailers = literal("grpc-status", str(grpc), huffman) + literal("grpc-message", CODED, huffman)
    return head + frame(DATA, 0, stream, data) + frame(HEADERS, END_STREAM | END_HEADERS, stream, trailers)


def payload(data, stream):
    """Bytes of the payloads of a stream's frames that messages are made of."""
    total, at = 0, 0
    while at < len(data):
        size, kind, number = int.from_bytes(data[at:at + 3], "big"), data[at + 3], int.from_bytes(data[at + 5:at + 9], "big")
        total += size if number == stream and kind in (DATA, HEADERS, CONTINUATION) else 0
        at += 9 + size
    return total


class Http2(Sockets):
    def open(self, **how):
        connection = self.connect(**how)
        connection.feed(PREFACE + frame(SETTINGS, 0, 0, bytes(12)))
        connection.answer(frame(SETTINGS, 0, 0, bytes(6)) + frame(SETTINGS, ACK, 0))
        connection.stream = -1
        return connection

    def exchange2(self, connection, path, asked=None, answered=None, feed=None, reply=None, **what):
        connection.stream += 2
        stream = connection.stream
        asked, answered = (asked or h2_request)(stream, path), (answered or h2_answer)(stream)
        connection.feed(asked, **(feed or {}))
        connection.answer(answered, **(reply or {}))
        self.expect(path, **{"protocol": "http2", "bytes_in": payload(asked, stream), "bytes_out": payload(answered, stream),
                             "stream": stream, "peer_port": connection.port, **what})

    def test_frames_and_header_blocks_are_read_however_calls_divide_them(self):
        def asked(stream, path):
            return h2_request(stream, path, huffman=stream % 4 == 1)
        with self.capturing():
            connection = self.open()
            for at in range(1, len(asked(1, "/in/000"))):
                self.exchange2(connection, f"/in/{at:03}", asked, feed={"cuts": [at]})
            for at in range(1, len(h2_answer(1, grpc=7))):
                self.exchange2(connection, f"/out/{at:03}", answered=lambda s: h2_answer(s, grpc=7), reply={"cuts": [at]}, grpc_status=7)
            size = len(asked(3, "/one"))
            self.exchange2(connection, "/one", lambda s, p: h2_request(s, p), lambda s: h2_answer(s, grpc=16), grpc_status=16,
                           feed={"cuts": range(1, size)}, reply={"cuts": range(1, len(h2_answer(1, grpc=16)))})
            connection.stream += 2
            data = asked(connection.stream, "/buffers")
            connection.client.sendall(data)
            connection.read(data, "readv", [1] * len(data))
            data = h2_answer(connection.stream)
            connection.answer(data, call="writev", pieces=range(1, len(data)))
            self.expect("/buffers", protocol="http2", stream=connection.stream)
            # The connection's own beginning.
            for at in range(1, len(PREFACE) + 30):
                connection, path = self.connect(), f"/{at:02}"
                connection.feed(PREFACE + frame(SETTINGS, 0, 0, bytes(12)) + h2_request(1, path), cuts=[at])
                connection.answer(h2_answer(1))
                self.expect(path, protocol="http2")
        self.check()

    def test_every_form_of_a_header_block(self):
        def padded(stream, path):
            block = METHOD_GET + literal(PATH, path + QUERY, huffman=True)
            return frame(HEADERS, END_HEADERS | END_STREAM | PADDED | HAS_PRIORITY, stream, bytes([30]) + bytes(5) + block + b"\0" * 30)

        def priority(stream, path):
            return frame(PRIORITY, 0, stream, bytes(5)) + frame(HEADERS, END_HEADERS | END_STREAM | HAS_PRIORITY, stream,
                                                                bytes(5) + METHOD_GET + literal(PATH, path))

        def no_padding(stream, path):
            return frame(HEADERS, END_HEADERS | END_STREAM | PADDED, stream, bytes([0]) + METHOD_GET + literal(PATH, path))

        def continued(ends, cuts):
            def make(stream, path):
                block = METHOD_GET + literal(PATH, path + QUERY) + literal("x-secret", "CANARY" * 20)
                first, *rest = parts(block, cuts)
                data = frame(HEADERS, END_STREAM if ends else 0, stream, first)
                for i, part in enumerate(rest):
                    data += frame(CONTINUATION, END_HEADERS if i == len(rest) - 1 else 0, stream, part)
                return data + (b"" if ends else frame(DATA, END_STREAM | PADDED, stream, bytes([9]) + b"CANARY" + bytes(9)))
            return make

        def empty_first(stream, path):
            return frame(HEADERS, END_STREAM, stream, METHOD_GET) + frame(CONTINUATION, 0, stream) + frame(CONTINUATION, END_HEADERS, stream,
                                                                                                      literal(PATH, path))

        def with_trailers(stream, path):
            return h2_request(stream, path, data=None).replace(b"\x01\x05", b"\x01\x04", 1) + frame(DATA, 0, stream, b"CANARY") + \
                frame(HEADERS, END_STREAM | END_HEADERS, stream, literal("x-checksum", CODED))
        with self.capturing():
            connection = self.open()
            for name, make in (("padded", padded), ("priority", priority), ("no-padding", no_padding), ("empty", empty_first)):
                self.exchange2(connection, f"/{name}", make, method="GET")
            for at in range(1, 30):
                self.exchange2(connection, f"/continued/{at:02}", continued(at % 2, [at]), method="GET")
                self.exchange2(connection, f"/thrice/{at:02}", continued(at % 2, [at, at + 2]), method="GET", feed={"cuts": [12 + at]})
            self.exchange2(connection, "/trailers", with_trailers)
            # gRPC's C core does not take the name of a path from the static table; later requests name the path that it has inserted.
            again = []
            for i, (huffman, insert) in enumerate(itertools.product((False, True), repeat=2)):
                self.exchange2(connection, f"/spelled/{i}", lambda s, p: frame(HEADERS, END_HEADERS | END_STREAM, s, METHOD_POST + literal(
                    ":path", p + QUERY, huffman, insert) + literal(":patx", "/no", huffman, False)))
                if insert:
                    connection.stream += 2
                    connection.feed(frame(HEADERS, END_HEADERS | END_STREAM, connection.stream, METHOD_POST + indexed(DYNAMIC)))
                    connection.answer(h2_answer(connection.stream))
                    again.append((connection.stream, f"/spelled/{i}"))
            # Texts of the table, which later ones move on.
            self.exchange2(connection, "/in-table/a", lambda s, p: h2_request(s, p, insert=True))
            self.exchange2(connection, "/in-table/b", lambda s, p: h2_request(s, p, insert=True, huffman=True))
            for path, more in (("/in-table/a", literal("x", CODED, insert=True)), ("/in-table/b", b"")):
                connection.stream += 2
                connection.feed(frame(HEADERS, END_HEADERS | END_STREAM, connection.stream,
                                      integer(4096, 5, 0x20) + METHOD_POST + indexed(DYNAMIC + 1) + more))
                connection.answer(h2_answer(connection.stream))
                again.append((connection.stream, path))
            # Statuses of the static table, of a literal in both codes, and of the table of this connection.
            for i, (status, number) in enumerate(((indexed(13), 404), (indexed(14), 500), (literal(STATUS, "503"), 503),
                                                  (literal(STATUS, "429", huffman=True), 429), (literal(STATUS, "418", insert=True), 418),
                                                  (indexed(DYNAMIC), 418))):
                self.exchange2(connection, f"/status/{i}", answered=lambda s, status=status: h2_answer(s, status), status=number)
            for i, grpc in enumerate((0, 5, 14)):
                self.exchange2(connection, f"/grpc/{i}", answered=lambda s, g=grpc: h2_answer(s, grpc=g, huffman=True), grpc_status=grpc)
            # An answer of trailers alone.
            self.exchange2(connection, "/trailers-only", answered=lambda s: frame(
                HEADERS, END_STREAM | END_HEADERS, s, STATUS_200 + literal("grpc-status", "12")), grpc_status=12)
            # Queries, at every place in a byte of the code.
            for i in range(8):
                self.exchange2(connection, "/" + "a" * i, lambda s, p: h2_request(s, p, huffman=True))
            for i, c in enumerate("X~$?"):
                path = f"/code/{i}" + c * (c != "?")
                self.exchange2(connection, path, lambda s, p: h2_request(s, p, huffman=True))
            self.exchange2(connection, "/long/" + "x" * 154, lambda s, p: h2_request(s, p, query=""))
            self.exchange2(connection, "/long/" + "x" * 155, lambda s, p: h2_request(s, p, query=""))
            self.expected["(too long)"] = self.expected.pop("/long/" + "x" * 155)
        self.assertEqual([(r["stream"], r["path"]) for r in self.requests if r["stream"] in dict(again)], again)
        self.requests = [r for r in self.requests if r["stream"] not in dict(again)]
        self.check()

    def test_interleaved_streams_and_other_frames(self):
        paths = [f"/stream/{i}" for i in range(20)]
        streams = {2 * i + 1: h2_request(2 * i + 1, path) for i, path in enumerate(paths)}
        answers = {s: h2_answer(s, grpc=s % 4) for s in streams}
        others = (frame(PING, 0, 0, b"CANARY.."), frame(WINDOW_UPDATE, 0, 0, bytes(4)), frame(0x0a, 0xff, 0, b"CANARY"),
                  frame(0xfa, 0x5, 3, b"CANARY" * 9), frame(SETTINGS, ACK, 0), frame(GOAWAY, 0, 0, bytes(8) + b"CANARY"))

        def frames(data):
            while data:
                size = 9 + int.from_bytes(data[:3], "big")
                yield data[:size]
                data = data[size:]

        def shuffled(messages):
            """Frames of all streams, each one's in their order, with others in between."""
            chance, left, mixed = random.Random(7), {s: list(frames(m)) for s, m in messages.items()}, b""
            while left:
                s = chance.choice(list(left))
                mixed += left[s].pop(0) + (chance.choice(others) if chance.random() < 0.3 else b"")
                if not left[s]:
                    del left[s]
            return mixed
        with self.capturing():
            connection = self.open()
            for data, way in ((shuffled(streams), connection.feed), (shuffled(answers), connection.answer)):
                way(data, cuts=sorted(random.Random(8).sample(range(1, len(data)), 60)))
            for i, (s, path) in enumerate(zip(streams, paths)):
                self.expect(path, protocol="http2", stream=s, grpc_status=s % 4, bytes_in=payload(streams[s], s),
                            bytes_out=payload(answers[s], s))
        self.check()

    def test_large_data_comes_in_many_calls(self):
        data, size = (SECRETS[1] * 1500)[:16384], 40000
        with self.capturing():
            connection = self.open()
            for i in range(3):
                self.exchange2(connection, f"/large/{i}", lambda s, p: h2_request(s, p, data=None).replace(b"\x01\x05", b"\x01\x04", 1)
                               + frame(DATA, 0, s, data) * 5 + frame(DATA, END_STREAM, s, data[:1 + i]),
                               lambda s: h2_answer(s, grpc=0, data=data), feed={"cuts": range(1000 * (i + 1), 80000, 1777)},
                               reply={"cuts": range(500, 16000, 999)}, grpc_status=0)
            self.exchange2(connection, "/one-frame", lambda s, p: h2_request(s, p, data=SECRETS[1] * size),
                           feed={"cuts": [100, *range(10000, 480000, 40000)]})
            # Its end is that of its last frame, not that frame's beginning.
            connection.stream += 2
            asked, answered = h2_request(connection.stream, "/slow"), h2_answer(connection.stream)
            for give, data in ((connection.feed, asked), (connection.answer, answered)):
                give(data[:-1])
                time.sleep(0.05)
                give(data[-1:])
            self.expect("/slow", protocol="http2")
        slow, = (r for r in self.requests if r["path"] == "/slow")
        for first, last in (("read_start_ns", "read_end_ns"), ("write_start_ns", "end_ns")):
            self.assertGreater(slow[last] - slow[first], 45e6)
        self.check()

    def test_aborted_streams(self):
        with self.capturing():
            connection = self.open()
            for i, (reset_by_client, answered) in enumerate(((True, False), (True, True), (False, False), (False, True))):
                connection.stream += 2
                stream, path = connection.stream, f"/reset/{i}"
                connection.feed(h2_request(stream, path))
                if answered:
                    connection.answer(frame(HEADERS, END_HEADERS, stream, STATUS_200) + frame(DATA, 0, stream, SECRETS[1]))
                reset = frame(RST_STREAM, 0, stream, bytes(4))
                (connection.feed if reset_by_client else connection.answer)(reset)
                self.expect(path, protocol="http2", reset=True, stream=stream, status=200 if answered else None)
            # After the end of a stream it has no meaning.
            self.exchange2(connection, "/whole", answered=lambda s: h2_answer(s) + frame(RST_STREAM, 0, s, bytes(4)))
            # A connection that goes with what is open on it.
            connection.stream += 2
            connection.feed(h2_request(connection.stream, "/gone"))
            connection.close()
            self.expect("/gone", protocol="http2", reset=True, status=None)
        self.check()

    def test_connections_that_were_open_before_the_window(self):
        connection = self.open()
        connection.feed(h2_request(1, "/before", insert=True) + h2_request(3, "/also-before"))
        connection.answer(h2_answer(1))
        path = self.directory / "socket"
        listener, _ = self.target.done("listen", "unix", path)
        unix = Connection(self.target, listener, str(path), "unix")
        unix.feed(PREFACE + frame(SETTINGS, 0, 0))
        unix.answer(frame(SETTINGS, 0, 0))
        unix.stream = -1
        old = self.connect()
        old.feed(request("/old") + request("/half")[:30])
        with self.capturing():
            connection.stream = 3
            # Read before the window, answered in it.
            connection.answer(h2_answer(3))
            old.answer(answer(202))
            self.exchange2(connection, "/now")
            self.exchange2(unix, "/unix")
            self.exchange2(connection, "/now/2", lambda s, p: h2_request(s, p, insert=True))
            connection.stream += 2
            connection.feed(frame(HEADERS, END_HEADERS | END_STREAM, connection.stream, METHOD_GET + indexed(DYNAMIC)))
            connection.answer(h2_answer(connection.stream))
            connection.stream += 2
            # What came to the table before the window has no name.
            connection.feed(frame(HEADERS, END_HEADERS | END_STREAM, connection.stream, METHOD_GET + indexed(DYNAMIC + 1)))
            connection.answer(h2_answer(connection.stream))
            # Not answered before the process ends, which closes the connection.
            connection.stream += 2
            connection.feed(h2_request(connection.stream, "/after"))
            self.expect("/after", protocol="http2", reset=self.sees_exit, cut_end=not self.sees_exit, status=None)
        found = [(r["stream"], r["path"], r["cut_start"]) for r in self.requests if r["path"] in (None, "/now/2")]
        self.assertEqual(sorted(found, key=str), sorted([(3, None, True), (0, None, True), (7, "/now/2", False), (9, "/now/2", False),
                                                         (11, None, False)], key=str))
        self.requests = [r for r in self.requests if r["path"] and r["stream"] != 9]
        self.check()


class Others(Sockets):
    def test_unix_sockets_ipv6_and_new_listeners(self):
        path = self.directory / "socket"
        with self.capturing():
            for family, where in (("6", None), ("unix", path), ("4", None)):
                listener, port = self.target.done("listen", family, where or 0)
                for accept in ("accept", "accept4"):
                    connection = Connection(self.target, listener, str(where) if where else port, family, accept)
                    self.exchange(connection, f"/{family}/{accept}", feed={"cuts": [20]}, local_port=port)
                    connection = Connection(self.target, listener, str(where) if where else port, family, accept)
                    connection.feed(PREFACE + frame(SETTINGS, 0, 0) + h2_request(1, f"/{family}/{accept}/2"), cuts=[20, 60])
                    connection.answer(frame(SETTINGS, 0, 0) + h2_answer(1))
                    self.expect(f"/{family}/{accept}/2", protocol="http2", local_port=port)
        self.check()
        for r in self.requests:
            self.assertEqual(r["no_arrival"], r["local_port"] == 0, r)

    def test_calls_that_a_target_makes_are_not_its_requests(self):
        with socket.create_server(("127.0.0.1", 0)) as server, self.capturing():
            for i in range(4):
                fd, = self.target.done("connect", "4", server.getsockname()[1])
                other, _ = server.accept()
                asked, answered = (request(f"/client/{i}"), answer()) if i % 2 else (PREFACE + frame(SETTINGS, 0, 0) +
                                                                                      h2_request(1, f"/client/{i}"), h2_answer(1))
                self.target.done("write", fd, asked.hex())
                other.sendall(answered)
                self.assertEqual(self.target.tell("read", fd, len(answered)), "0x" + answered.hex())
                self.target.done("close", fd)
                other.close()
            self.exchange(self.connect(), "/served")
        self.check()

    def test_garbage_is_not_a_request_and_changes_nothing(self):
        chance = random.Random(11)
        lines = (b"SET CANARY value\r\n", b"EHLO CANARY.example\r\n", b"GET CANARY\r\n", b"HELP\r\n", b"PUT /CANARY FTP/1.1\r\n\r\n",
                 b"POST /CANARY " + b"x" * 5000, b"GETS CANARY\r\nHTTP/1.1\r\n", b"QUIT CANARY HTTPS\r\n", b"\0\0\0\0\0\0\0\0\0CANARY")

        def noise():
            return chance.randbytes(chance.choice((1, 5, 8, 9, 10, 64, 1000, 5000)))
        with self.capturing():
            for i in range(60):
                connection = self.connect()
                for k in range(40):
                    data = lines[(i + k) % len(lines)] if k % 4 == 0 else noise()
                    (connection.feed if chance.random() < 0.5 else connection.answer)(data)
                connection.close()
            # What is invalid is dropped, with the request that it was in.
            connection = self.connect()
            connection.feed(request("/lost", body=None, headers=CHUNKED) + b"CANARY is no size\r\n")
            self.expect("/lost", lost=True, status=None)
            connection = self.connect()
            connection.feed(PREFACE + frame(SETTINGS, 0, 0) + h2_request(1, "/lost/2") + frame(DATA, 0, 0, b"CANARY" * 9))
            self.expect("/lost/2", protocol="http2", lost=True, status=None)
            # And the connection is followed again from where that can be.
            self.exchange(connection, "/again")
            self.exchange(self.connect(), "/served")
        self.check(["use an unknown protocol"])

    def test_encrypted_connections_and_io_uring_are_reported_once(self):
        with self.capturing():
            for i in range(3):
                connection = self.connect()
                connection.feed(b"\x16\x03\x01\x02\x00" + b"CANARY" * 80)
                connection.answer(b"\x16\x03\x03\x00\x7a" + b"CANARY" * 30)
                for _ in range(20):
                    record = b"\x17\x03\x03\x00\x90" + bytes(144)
                    connection.feed(record, cuts=[5])
                    connection.answer(record)
            ring = self.target.tell("uring")
            self.exchange(self.connect(), "/served")
        self.assertRegex(ring, r"^\d+$", "the kernel gives no io_uring here")
        self.check(["are encrypted", "uses io_uring"])
        self.assertEqual(len(self.warnings), 2 + len(self.warned))

    def test_an_io_uring_from_before_the_window_is_reported(self):
        self.target.done("uring")
        with self.capturing():
            self.exchange(self.connect(), "/served")
        self.check(["uses io_uring"])

    def test_two_targets_and_a_child_have_their_own_requests(self):
        second = self.start(Target, self.directory)
        child = Child(self.directory, self.target)
        listener, port = second.done("listen", "4")
        with self.capturing(second, child):
            self.exchange(self.connect(), "/first")
            self.exchange(Connection(second, listener, port), "/second", pid=second.pid)
            # It serves at the parent's listener.
            shared = Connection(child, self.listener, self.port)
            self.exchange(shared, "/child", pid=child.pid)
            # One of the two speaks to the other: a request of the one that serves.
            fd, = self.target.done("connect", "4", port)
            served, = second.done("accept", listener)
            self.target.done("write", fd, request("/between").hex())
            self.assertEqual(second.tell("read", served, len(request("/between"))), "0x" + request("/between").hex())
            second.done("write", served, answer().hex())
            self.assertEqual(self.target.tell("read", fd, len(answer())), "0x" + answer().hex())
            self.expect("/between", pid=second.pid, bytes_in=len(request("/between")), bytes_out=len(answer()))
        self.check()


class Held(Sockets):
    """A request ends when the last byte of its answer has left the host's socket."""

    def finish(self, connection, path, pieces, wait_s=0):
        """The target writes the pieces of an answer by a call each; returns when the client had the last byte, and what was unsent."""
        connection.feed(request(path))
        for piece in pieces:
            self.assertEqual(self.target.done("write", connection.fd, piece.hex()), [len(piece)])
        unsent, = self.target.done("unsent", connection.fd)
        time.sleep(wait_s)
        left = sum(map(len, pieces))
        while left:
            left -= len(connection.client.recv(left))
        self.expect(path, bytes_out=sum(map(len, pieces)))
        return time.monotonic_ns(), unsent

    def check_end(self, path, received_ns, reason, held, at_least_ns):
        """How much later the client had it."""
        r = next(r for r in self.requests if r["path"] == path)
        self.assertLessEqual(r["end_ns"], received_ns)
        self.assertEqual(r["held"], {"reason": reason, "bytes": held})
        self.assertGreater(r["phases"]["send_held"], at_least_ns)
        self.assertEqual(sum(r["phases"].values()), r["latency_ns"])
        return received_ns - r["end_ns"]

    def test_a_body_that_is_written_after_its_head_waits_for_the_ack_of_the_head(self):
        head, body = answer(body=b"x" * 46).split(b"\r\n\r\n")
        finished = {}
        with self.capturing():
            connection = self.connect()
            self.target.done("nodelay", connection.fd, 0)
            for i in range(8):
                # The client's kernel acknowledges late, as it does on a connection that sends and receives by turns.
                connection.client.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
                finished[f"/held/{i}"] = self.finish(connection, f"/held/{i}", [head + b"\r\n\r\n", body])
            self.target.done("nodelay", connection.fd, 1)
            self.finish(connection, "/no-delay", [head + b"\r\n\r\n", body])
        self.check()
        # On a machine that stands still between the two calls the ACK comes before the body is written, which is not held then.
        held = {path: received_ns for path, (received_ns, unsent) in finished.items() if unsent}
        self.assertGreaterEqual(len(held), 5, finished)
        later = [self.check_end(path, received_ns, "nagle", len(body), 20_000_000) for path, received_ns in held.items()]
        # The ACK of the head is 40 ms late each time; this client now and then, on a busy machine.
        self.assertLess(statistics.median(later), 20_000_000, later)
        r = next(r for r in self.requests if r["path"] == "/no-delay")
        self.assertEqual((r["held"], r["phases"]["send_held"]), (None, 0))

    def test_an_answer_waits_for_a_client_that_reads_late(self):
        data = answer(body=b"x" * 60000)
        with self.capturing():
            received = {}
            for i in range(3):
                connection = self.connect(room=4096)
                received[f"/late/{i}"], _ = self.finish(connection, f"/late/{i}", [data], wait_s=0.05)
            # Its end was held when the connection was closed, which does not discard it.
            connection = self.connect(room=4096)
            connection.feed(request("/closed"))
            self.target.done("write", connection.fd, data.hex())
            self.target.done("close", connection.fd)
            time.sleep(0.05)
            left = len(data)
            while left:
                left -= len(connection.client.recv(left))
            self.expect("/closed", bytes_out=len(data))
            # And this one is discarded with the connection.
            connection = self.connect(room=4096)
            connection.feed(request("/reset"))
            self.target.done("write", connection.fd, data.hex())
            connection.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.client.close()
            self.target.tell("read", connection.fd, "1")
            self.expect("/reset", bytes_out=len(data), reset=True)
        self.check()
        held = {r["path"]: r["held"]["bytes"] for r in self.requests if r["path"] in received}
        self.assertGreater(min(held.values()), 0)
        later = [self.check_end(path, received_ns, "window", held[path], 45_000_000) for path, received_ns in received.items()]
        self.assertLess(statistics.median(later), 20_000_000, later)


class Accepting(Sockets):
    """A request begins when its bytes are there, whether its connection is accepted or not."""

    # What system calls return is seen everywhere.
    sees_accept = kernel_features.traces_functions() or not kernel_features.follows_at_sockets()

    def come(self, path):
        """A client that has connected and sent a request; and when, at the latest."""
        client = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        self.addCleanup(client.close)
        client.sendall(request(path))
        return client, time.monotonic_ns()

    def serve(self, fd, client, path):
        self.assertEqual(self.target.tell("read", fd, len(request(path))), "0x" + request(path).hex())
        self.assertEqual(self.target.done("write", fd, answer().hex()), [len(answer())])
        self.assertEqual(client.recv(4096), answer())
        self.expect(path)

    def test_a_connection_waits_to_be_accepted_and_then_to_be_read(self):
        accepted = {}
        with self.capturing():
            clients = {f"/queued/{i}": self.come(f"/queued/{i}") for i in range(3)}
            time.sleep(0.2)
            fds = {}
            for path in clients:
                before = time.monotonic_ns()
                fds[path], = self.target.done("accept4", self.listener)
                accepted[path] = before, time.monotonic_ns()
                time.sleep(0.02)
            time.sleep(0.1)
            for path, (client, _) in clients.items():
                self.serve(fds[path], client, path)
            # The same connection once more, and one that is accepted before its bytes come.
            client.sendall(request("/again"))
            self.serve(fds[path], client, "/again")
            self.exchange(self.connect(), "/accepted")
        self.check()
        found = {r["path"]: r for r in self.requests}
        for path, (_, sent_ns) in clients.items():
            r, (before, after) = found[path], accepted[path]
            self.assertLessEqual(r["start_ns"], sent_ns)
            self.assertTrue(r["unaccepted"])
            self.assertEqual(sum(r["phases"].values()), r["latency_ns"])
            if self.sees_accept:
                self.assertTrue(before <= r["accepted_ns"] <= after, (before, r["accepted_ns"], after))
                self.assertEqual(r["phases"]["accept_queue"], r["accepted_ns"] - r["start_ns"])
                self.assertGreater(r["phases"]["queue"], 100_000_000)
            else:
                self.assertIsNone(r["accepted_ns"])
                self.assertEqual(r["phases"]["accept_queue"], 0)
                self.assertGreater(r["phases"]["queue"], 300_000_000)
        for path in ("/again", "/accepted"):
            self.assertEqual((found[path]["unaccepted"], found[path]["accepted_ns"], found[path]["phases"]["accept_queue"]), (False, None, 0))


class AtSystemCallsAccepting(Accepting):
    programs, sees_exit, warned, sees_accept = harness.BUILD / "refused-sockets", False, (SLOWER_CALLS,), True


class AtSystemCallsHttp1(Http1):
    """By the programs that stand in for those at sockets, which this daemon's kernel refuses."""
    programs, sees_exit, sees_waiting, warned = harness.BUILD / "refused-sockets", False, True, (SLOWER_CALLS,)


class AtSystemCallsHttp2(Http2):
    programs, sees_exit, warned = harness.BUILD / "refused-sockets", False, (SLOWER_CALLS,)


class AtSystemCallsOthers(Others):
    programs, sees_exit, warned = harness.BUILD / "refused-sockets", False, (SLOWER_CALLS,)



if __name__ == "__main__":
    harness.main()
