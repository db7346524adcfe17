# SPDX-License-Identifier: Apache-2.0
"""What the daemon takes while nobody captures."""
import glob
import os
import pathlib
import re
import time

import harness
import kernel
import settings
from result import Result

PSS_MB, CPU_PERCENT = 12, 0.1
EXECS_PER_S = 100
SECONDS = 10 * min(settings.SECONDS / 2, 1)


def pss_mb(pids):
    """Memory of processes, what is shared counted by its share."""
    return sum(int(kb) for pid in pids for kb in re.findall(
        r"^(?:Pss|SwapPss):\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)) / 1024


def held_objects(pids):
    """BPF programs, links and maps that processes hold."""
    return sum("bpf" in os.readlink(path) for pid in pids for path in glob.glob(f"/proc/{pid}/fd/*"))


def spawn(seconds):
    """Starts programs that end at once, EXECS_PER_S of them; returns how many a second it really was."""
    begun, count = time.monotonic(), 0
    while (elapsed := time.monotonic() - begun) < seconds:
        while count < elapsed * EXECS_PER_S:
            os.waitpid(os.posix_spawn("/bin/true", ["true"], os.environ), 0)
            count += 1
        time.sleep(0.005)
    return count / elapsed


def run(stack):
    """Returns (results, {})."""
    server = harness.NativeServer(["half_plus_two"], http=False)
    stack.callback(server.stop)
    daemon = harness.Daemon()
    stack.callback(daemon.stop)
    harness.wait_target(daemon, server.pid)
    time.sleep(1)
    pids = daemon.pids()
    pss, objects = pss_mb(pids), held_objects(pids)
    before, begun = kernel.cpu_ns(pids), time.monotonic_ns()
    rate = spawn(SECONDS)
    share = 100 * (kernel.cpu_ns(pids) - before) / (time.monotonic_ns() - begun)
    return [Result("idle: PSS of both roles", "MB", [pss], PSS_MB),
            Result("idle: BPF programs, links and maps held", "", [objects], 0),
            Result(f"idle: CPU of both roles at {rate:.0f} exec/s on the host", "%", [share], CPU_PERCENT)], {}
