# SPDX-License-Identifier: Apache-2.0
"""Captures whose answers are timed to their last byte, and the server under a load of its own."""
import contextlib
import dataclasses
import re
import signal
import time

import harness
import kernel


ATTEMPTS = 3
# Of start_server().
OPS_PER_S, OPS_PER_S_MAX = 300_000, 380_000


class TooBusy(Exception):
    """A window did not open when it should: something else had the CPUs."""


def attempt(name, function, *arguments):
    """What a function returns that may find the machine too busy; HarnessError when it does so every time."""
    for _ in range(ATTEMPTS):
        try:
            return function(*arguments)
        except TooBusy:
            # What the last one did has to be over.
            time.sleep(1)
    raise harness.HarnessError(f"{name}: the window opened too late {ATTEMPTS} times: too busy a machine to measure")


def stamped(data):
    """In the place of a message's parser: its bytes, and when the last of them was there."""
    return time.time_ns(), data


@dataclasses.dataclass
class Answer:
    """What a capture brought; times are Unix nanoseconds."""
    sent_ns: int
    received_ns: int
    xspace: object      # the message
    size: int           # of it, in bytes
    result: object = None   # the CaptureResult, when the call was Control.Capture

    def _environment(self, name):
        for plane in self.xspace.planes:
            if plane.name == "Task Environment":
                names = {key: metadata.name for key, metadata in plane.stat_metadata.items()}
                for stat in plane.stats:
                    if names[stat.metadata_id] == name:
                        return stat.uint64_value or stat.int64_value
        raise harness.HarnessError(f"a capture does not report its {name}")

    @property
    def opened_ns(self):
        return self._environment("profile_start_time")

    @property
    def closed_ns(self):
        return self._environment("profile_stop_time")

    @property
    def answer_s(self):
        """From the end of the window to the last byte."""
        return (self.received_ns - self.closed_ns) / 1e9

    @property
    def attach_s(self):
        """From the request to the beginning of the window, when no time for it was asked for."""
        return (self.opened_ns - self.sent_ns) / 1e9

    @property
    def events(self):
        return sum(len(line.events) for plane in self.xspace.planes for line in plane.lines)

    @property
    def ops_per_s(self):
        return self.result.ops * 1e9 / self.result.window_ns

    @property
    def lost(self):
        """Whether it reports lost records."""
        return any("were lost" in text for text in self.xspace.warnings)

    def good(self):
        """Itself, or HarnessError when the capture failed."""
        if self.xspace.errors:
            raise harness.HarnessError(f"a capture failed: {'; '.join(self.xspace.errors)}")
        return self


def _options():
    return [("grpc.max_receive_message_length", -1), ("grpc.enable_http_proxy", 0),
            ("grpc.use_local_subchannel_pool", 1)]


class Pending:
    """A capture that was asked for."""

    def __init__(self, future, sent_ns):
        self._future, self._sent_ns = future, sent_ns

    def wait(self):
        """Until its last byte is there."""
        self._future.result()

    def read(self):
        """Its Answer."""
        received, data = self._future.result()
        response = harness.profiler_service().ProfileResponse.FromString(data)
        data = response.xspace or next((t.data for t in response.tool_data if t.name.endswith("xplane.pb")), b"")
        return Answer(self._sent_ns, received, harness.xplane_class().FromString(data), len(data)).good()


@contextlib.contextmanager
def profile(address, duration_ms, level, start_timestamp_ns=0):
    """Asks for a capture as TensorBoard does; gives a Pending one."""
    import grpc

    service = harness.profiler_service()
    request = harness.profile_request(duration_ms=duration_ms, level=level, start_timestamp_ns=start_timestamp_ns)
    with grpc.insecure_channel(address, options=_options()) as channel:
        # The time that a client takes to connect is not the server's.
        grpc.channel_ready_future(channel).result(harness.ANSWER_TIMEOUT_S)
        call = channel.unary_unary("/tensorflow.ProfilerService/Profile",
                                   request_serializer=service.ProfileRequest.SerializeToString,
                                   response_deserializer=stamped)
        sent = time.time_ns()
        yield Pending(call.future(request, timeout=harness.ANSWER_TIMEOUT_S), sent)


def capture(daemon, pid, duration_ms, level, **options):
    """A capture of one process by the Unix socket, as tfprofctl asks for it, with more fields of a CaptureRequest: its
    Answer."""
    import grpc

    # makes the generated modules importable
    harness.profiler_service()
    import control_pb2 as control

    request = control.CaptureRequest(pids=[pid], duration_ns=int(duration_ms * 1e6), level=level, **options)
    with grpc.insecure_channel(f"unix:{daemon.socket}", options=_options()) as channel:
        grpc.channel_ready_future(channel).result(harness.ANSWER_TIMEOUT_S)
        call = channel.unary_stream("/tfprofd.Control/Capture",
                                    request_serializer=control.CaptureRequest.SerializeToString,
                                    response_deserializer=stamped)
        sent = time.time_ns()
        answers = list(call(request, timeout=harness.ANSWER_TIMEOUT_S))
    replies = [control.CaptureReply.FromString(data) for _, data in answers]
    xspace = b"".join(reply.xspace for reply in replies)
    return Answer(sent, answers[-1][0], harness.xplane_class().FromString(xspace), len(xspace), replies[-1].result).good()


class LoadedServer(harness.NativeServer):
    """The native server, running the layered model by itself as fast as it can."""

    THREADS = 2
    WARM_UP_S, WARM_UP_RUNS = 60, 200

    def __init__(self, rows, profiler=False):
        self.runs = 0   # up to the last mark
        super().__init__(["layered"], self_load=self.THREADS, rows=rows, http=False, profiler=profiler)
        # The first runs take long: the graph is optimised then.
        end = time.monotonic() + self.WARM_UP_S
        while self.runs < self.WARM_UP_RUNS:
            self.mark()
            if time.monotonic() > end:
                self.stop()
                self.fail(f"{self.runs} runs of its own load within {self.WARM_UP_S} s")

    def mark(self):
        """Runs, and seconds, since the last mark."""
        before = self.stdout().count("runs/s\n")
        self.send(signal.SIGUSR1)
        harness.wait_until(lambda: self.stdout().count("runs/s\n") > before, 10, "a report of the self load")
        runs, seconds = re.findall(r"(\d+) runs in ([\d.]+) s", self.stdout())[-1]
        self.runs += int(runs)
        return int(runs), float(seconds)


def start_server(stack, daemon):
    """(A server that uses every CPU for as many operations a second as the bars are for, while it is captured without a loss; such a capture, of 500 ms).
    It is held there by how many rows of input an operation works on. A machine that is too slow for it makes what it can."""
    few, many, rows = 0, None, 1
    while True:
        server = LoadedServer(rows)
        stack.callback(server.stop)
        harness.wait_target(daemon, server.pid)
        found = capture(daemon, server.pid, 500, 2)
        kernel.wait_detached(daemon)
        rate, lossless = found.ops_per_s, not found.result.dropped
        if rate > OPS_PER_S_MAX or not lossless:
            few = rows
        else:
            many = rows
        next_rows = 2 * few if many is None else (few + many) // 2
        if (lossless and OPS_PER_S <= rate <= OPS_PER_S_MAX) or next_rows in (few, rows):
            return server, found
        server.stop()
        rows = next_rows


class OpRate:
    """Operations of one run of the model, by a short capture, and from them their rate."""

    def __init__(self, daemon, server):
        harness.wait_target(daemon, server.pid)
        found = capture(daemon, server.pid, 300, 3).result
        if not found.runs:
            raise harness.HarnessError("a capture of the loaded server shows no runs")
        self.per_run = found.ops / found.runs
        kernel.wait_detached(daemon)
        server.mark()
        time.sleep(0.5)
        runs, seconds = server.mark()
        self.per_second = self.per_run * runs / seconds
