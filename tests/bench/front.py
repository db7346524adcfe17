# SPDX-License-Identifier: Apache-2.0
"""The daemon's front under clients: quick calls beside a capture and a large download."""
import math
import pathlib
import re
import struct
import subprocess
import tempfile
import threading
import time

import client
import harness
import kernel
import settings
from result import Result

MONITOR_PER_S = 1000
MONITOR_P99_MS = 10
DOWNLOAD_MIB = 500
DOWNLOAD_MIB_PER_S = 300
EXTRA_MB = 16
LEVEL = 3


def framed(message):
    """A file with a request as it goes over the wire."""
    file = tempfile.NamedTemporaryFile(prefix="tfprofd-bench-")
    file.write(struct.pack(">BI", 0, len(message)) + message)
    file.flush()
    return file


def h2load(address, method, request, *arguments):
    return ["h2load", "-H", "content-type: application/grpc", "-H", "te: trailers", "-d", request.name, *map(str, arguments),
            f"http://{address}/tensorflow.ProfilerService/{method}"]


class Monitor:
    """Monitor calls at a steady rate, until finish(): their latencies in ms."""

    def __init__(self, address, seconds):
        self.request, self.log = framed(b""), tempfile.NamedTemporaryFile(prefix="tfprofd-bench-")
        pathlib.Path(self.log.name).unlink()
        argv = h2load(address, "Monitor", self.request, "-c", 2, "-m", 4, f"--rps={MONITOR_PER_S // 2}", "-D", math.ceil(seconds),
                      f"--log-file={self.log.name}")
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finish(self):
        out = self.process.communicate(timeout=harness.ANSWER_TIMEOUT_S)[0]
        with open(self.log.name, encoding="ascii") as log:
            rows = [line.split() for line in log]
        if any(row[1] != "200" for row in rows) or not rows:
            raise harness.HarnessError(f"calls of Monitor failed: {out[-500:]}")
        return sorted(int(row[2]) / 1000 for row in rows)


class Memory:
    """What memory a process has, looked at every few milliseconds, until finish()."""

    def __init__(self, pid):
        self.pid, self.samples, self.going = pid, [], True
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self):
        while self.going:
            self.samples.append((time.monotonic(), kernel.memory_bytes(self.pid, "VmRSS")))
            time.sleep(0.005)

    def finish(self):
        self.going = False
        self.thread.join()

    def most(self, since, until):
        return max(rss for at, rss in self.samples if since <= at <= until)


def download(address, duration_ms):
    """A capture by h2load with large windows: (bytes, seconds from the first byte to the last)."""
    request = framed(harness.profile_request(duration_ms=duration_ms, level=LEVEL).SerializeToString())
    out = subprocess.run(h2load(address, "Profile", request, "-n", 1, "-c", 1, "-w", 24, "-W", 24), check=True, capture_output=True, text=True,
                         timeout=harness.ANSWER_TIMEOUT_S).stdout
    size = int(re.search(r"\((\d+)\) data", out)[1])

    def seconds(name):
        value, unit = re.search(rf"{name}: +([\d.]+)(us|ms|s)", out).groups()
        return float(value) * {"us": 1e-6, "ms": 1e-3, "s": 1}[unit]
    return size, seconds("time for request") - (seconds("time to 1st byte") - seconds("time for connect"))


def measure_download(daemon, address):
    """(latencies of Monitor in ms, bytes, MiB/s, memory beyond them) of a capture of many bytes, and of its download."""
    front = kernel.front_of(daemon)
    idle = kernel.memory_bytes(front, "VmRSS")
    with client.profile(address, 1000, LEVEL) as answer:
        per_s = answer.read().size
    kernel.wait_detached(daemon)
    wanted = DOWNLOAD_MIB * min(settings.SECONDS / 2, 1) * 2**20
    duration_ms = int(wanted * 1.6 / per_s * 1000)
    monitor, memory = Monitor(address, duration_ms / 1000 + 5), Memory(front)
    try:
        size, seconds = download(address, duration_ms)
    finally:
        ended = time.monotonic()
        memory.finish()
    return monitor.finish(), size, size / 2**20 / seconds, memory.most(ended - seconds, ended) - idle - size


def run(stack):
    """Returns (results, raw figures)."""
    daemon = harness.Daemon("--max-duration", 600)
    stack.callback(daemon.stop)
    server = client.LoadedServer(1)
    address = harness.wait_target(daemon, server.pid)["address"]
    try:
        latencies, size, rate, memory = measure_download(daemon, address)
    finally:
        server.stop()
    p99 = latencies[int(len(latencies) * 0.99)]
    results = [Result("calls of Monitor beside a capture and its download", "", [len(latencies)]),
               Result("Monitor, p50", "ms", [latencies[len(latencies) // 2]]),
               Result("Monitor, p99", "ms", [p99], MONITOR_P99_MS),
               Result("downloaded", "MiB", [size / 2**20]),
               Result("download, first byte to last", "MiB/s", [rate], DOWNLOAD_MIB_PER_S, at_least=True),
               Result("memory beyond what is sent", "MB", [memory / 1e6], EXTRA_MB)]
    return results, {"latencies_ms": latencies[::100]}
