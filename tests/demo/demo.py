#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows tfprofd at work: a real TensorFlow server is profiled from outside, through the unmodified TensorBoard.

Run by `make demo`, as root. With KEEP=1 in the environment, TensorBoard, the server and the daemon go on running.
"""
import contextlib
import os
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness

DEMO = harness.BUILD / "demo"
LOGDIR = DEMO / "logdir"
SECONDS = 2
ROWS_SHOWN = 10


def say(text):
    print(f"\n== {text}", flush=True)


def start_everything(stack, keep):
    """The daemon, then a server for it to find, requests to it, and TensorBoard; stopped when the stack unwinds."""
    def start(kind, *arguments, **options):
        process = kind(*arguments, **options)
        stack.callback(process.stop)
        print(f"{process.name}: process {process.pid}", flush=True)
        return process

    daemon = start(harness.Daemon, keep=keep)
    server = start(harness.NativeServer, ["half_plus_two", "layered"], keep=keep)
    loads = [start(harness.Load, server, model) for model in ("half_plus_two", "layered")]
    board = start(harness.TensorBoard, LOGDIR, keep=keep)
    return daemon, server, loads, board


def capture_by_tensorboard(board, address):
    """What a press on TensorBoard's capture button does; returns the run that it made."""
    runs = set(board.runs())
    status, message = board.capture(address, SECONDS * 1000)
    print(f"TensorBoard says: {message}")
    if status != 200 or "Capture profile successfully" not in message:
        raise harness.HarnessError(f"the capture failed with HTTP status {status}")
    made = set(board.runs()) - runs
    if len(made) != 1:
        raise harness.HarnessError("the capture made no run")
    return made.pop()


def print_ops(rows):
    """The op table as the plugin computed it."""
    if not rows:
        raise harness.HarnessError("TensorBoard shows no op")
    rows = sorted(rows, key=lambda row: -row["total_self_time"])[:ROWS_SHOWN]
    print(f"{'self ms':>10} {'mean us':>9} {'count':>8}  {'type':16} op")
    for row in rows:
        print(f"{row['total_self_time'] / 1e3:10.2f} {row['avg_self_time']:9.2f} {row['occurrences']:8.0f}  "
              f"{row['type']:16} {row['operation']}")


def print_warnings(path):
    xspace = harness.XSpace(path)
    for text in xspace.warnings + xspace.advice:
        print(f"note: {text}")


def demonstrate(stack, keep):
    say("Starting tfprofd, a TensorFlow server, requests to it, and TensorBoard")
    daemon, server, loads, board = start_everything(stack, keep)
    address = harness.wait_target(daemon, server.pid)["address"]

    say("What can be profiled (tfprofctl targets)")
    print(harness.ctl(daemon, "targets").stdout, end="")

    say(f"{SECONDS} s captured through TensorBoard's capture button, with {address} as its address")
    run = capture_by_tensorboard(board, address)
    files = harness.xspace_files(LOGDIR)

    say(f"{SECONDS} s captured by tfprofctl, with the slowest requests")
    command = harness.ctl(daemon, "capture", "--pid", server.pid, "--duration", f"{SECONDS}s", "-o", LOGDIR, "--slowest", 2)
    print(command.stdout + command.stderr, end="")
    if command.status:
        raise harness.HarnessError(f"tfprofctl capture ended with {command.status}")

    say("The requests meanwhile")
    for load in loads:
        result = load.finish()
        print(f"{result['model']}: {result['requests_per_s']} requests/s, p50 {result['p50_ms']} ms, "
              f"p99 {result['p99_ms']} ms, {result['errors']} errors")
        if result["errors"]:
            raise harness.HarnessError("requests failed")

    say(f"The ops by self time, as TensorBoard's Framework Op Stats computes them from run {run}")
    print_ops(board.op_stats(run))
    print_warnings(files[-1])
    return daemon, server, board


def print_where(daemon, server, board, keep):
    say("How to open it")
    command = f"build/venv/bin/tensorboard --logdir {LOGDIR.relative_to(harness.ROOT)}"
    if not keep:
        print(f"{command}\nand open http://localhost:6006/#profile. To keep everything running: make demo KEEP=1")
        return
    print(f"open {board.url}\n"
          f"more requests:  {' '.join(map(str, server.load_argv('layered')))} --duration 60\n"
          f"to stop it all: kill {board.pid} {server.pid} {daemon.pid}")


def main():
    keep = os.environ.get("KEEP", "") not in ("", "0")
    if os.geteuid() != 0:
        sys.exit("demo: needs root, as probes are attached to another process")
    shutil.rmtree(LOGDIR, ignore_errors=True)
    with contextlib.ExitStack() as stack:
        try:
            processes = demonstrate(stack, keep)
        except (harness.HarnessError, OSError) as e:
            print(f"\ndemo: {e}\ndemo: logs are in {harness.LOGS.relative_to(harness.ROOT)}", file=sys.stderr)
            return 1
        print_where(*processes, keep)
        if keep:
            stack.pop_all()
    return 0


if __name__ == "__main__":
    sys.exit(main())
