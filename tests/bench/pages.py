# SPDX-License-Identifier: Apache-2.0
"""A capture of many events on its way to a person's eyes: how large its file is, and how long this machine's converters take to open it."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import client
import harness
import kernel
import settings
from result import Result

OPEN_S = 5
EVENTS = int(1_080_000 * settings.SHARE)
BYTES_PER_EVENT = 25
TOOLS = {"overview_page": OPEN_S, "trace_viewer@": OPEN_S, "framework_op_stats": None, "input_pipeline_analyzer": None, "memory_profile": None}
# In a process of its own, as the first one to look at the file; only the page's own time is counted.
PROGRAM = """
import sys, time
from xprof.convert import raw_to_tool_data
tool, path = sys.argv[1:]
begun = time.monotonic()
data, _ = raw_to_tool_data.xspace_to_tool_data([path], tool, {"use_saved_result": False, "hosts": ["host"], "host": "host",
                                                              "trace_viewer_options": {"resolution": 8000}})
print(time.monotonic() - begun, len(data))
"""


def open_page(tool, file):
    """Seconds."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "host.xplane.pb"
        shutil.copy(file, path)
        done = subprocess.run([sys.executable, "-c", PROGRAM, tool, path], capture_output=True, text=True, check=True,
                              env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"})
        return float(done.stdout.split()[-2])


def capture(daemon, server, logdir, duration_ms, *options):
    """(the file, its events)"""
    command = harness.ctl_capture(daemon, [server.pid], logdir, *options, duration=f"{duration_ms}ms")
    if command.status:
        raise harness.HarnessError(f"tfprofctl capture ended with {command.status}: {command.stderr or command.json['warnings']}")
    kernel.wait_detached(daemon)
    file, = harness.xspace_files(logdir)
    space = harness.xplane_class().FromString(file.read_bytes())
    return file, sum(len(line.events) for plane in space.planes for line in plane.lines)


def run(stack):
    """Returns (results, raw figures)."""
    directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
    daemon = harness.Daemon()
    stack.callback(daemon.stop)
    server, _ = client.start_server(stack, daemon)
    results = []
    for name, options in (("level 2", ["--level", "2"]), ("level 3", ["--level", "3"])):
        _, events = capture(daemon, server, directory / f"first {name}", 500, *options)
        file, events = capture(daemon, server, directory / name, int(500 * EVENTS / events), *options)
        results += [Result(f"{name}: events shown", "", [events]),
                    Result(f"{name}: size of the file, per event", "bytes", [file.stat().st_size / events], BYTES_PER_EVENT)]
        for tool, bar in TOOLS.items():
            times = settings.TIMES if bar else settings.ROUNDS
            results.append(Result(f"{name}: {tool} opens", "s", [open_page(tool, file) for _ in range(times)], bar,
                                  interval=settings.USUAL["TIMES"] if bar else 0))
    return results, {}
