#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what tests/golden/check replays beside logs: a native server that starts in the window, with its lifecycle, allocations and requests of
batches, and a Python server with spans. Beside each recording are the client's log and the server's, which the replay must agree with. And a native
server whose cgroup has a quota, and Triton's, without logs.
usage: build/venv/bin/python tests/golden/record.py [NAME]...    as root, after `make all servers`; then `make golden`"""
import concurrent.futures
import contextlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

GOLDEN = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(GOLDEN.parent / "e2e"))
import harness
import test_lifecycle
import test_stripped
import test_throttled
import test_triton

# Nothing of where it was made is to be in a recording.
MODELS = pathlib.Path("/srv/models")


@contextlib.contextmanager
def models(*names):
    directories = [MODELS / name for name in names]
    for directory in directories:
        shutil.copytree(harness.MODELS / directory.name, directory)
    try:
        yield directories
    finally:
        shutil.rmtree(MODELS)


def serve(stack, kind, directories, *arguments):
    """A server of these models, as tests start one."""
    argv = {"native": [harness.BUILD / "servers/native_server", "--port", 0], "python": [harness.PYTHON, harness.SERVERS / "grpc_server.py"]}[kind]
    server = harness.Server(f"{kind}_server", [*argv, *arguments, *directories], ["env", f"TFPROF_LIBRARY={harness.OUT / 'libtfprof.so'}"], False, False)
    stack.callback(server.stop)
    return server


def load(stack, server, rest, log, model, count, rate, *arguments):
    client = harness.LoadClient(server.port, rest, log, "--clients", 4, "--model", model, "--rate", rate, "--count", count, *arguments,
                                prefix=["chrt", "--fifo", "1"])
    stack.callback(client.stop)
    return client.finish()


def begin(daemon, directory, pids, *arguments):
    which = [word for pid in pids for word in ("--pid", pid)]
    capture = harness.Process("capture", [harness.OUT / "tfprofctl", "--daemon", f"unix:{daemon.socket}", "capture", *which, "--duration", "60s",
                                          "-o", directory / "logdir", "--record", directory / "a.tfp", *arguments])
    harness.wait_until(lambda: harness.ctl(daemon, "status", "--json").json["captures"], 20, "the capture runs")
    time.sleep(0.5)
    return capture


def end(daemon, capture):
    harness.ctl(daemon, "stop")
    if capture.wait(60) not in (0, 6):
        capture.fail("no recording")


def record_startup(stack, directory, log, truth):
    """All of a native server from its exec on. Something has to be there to be captured when the window opens."""
    daemon = harness.Daemon("--lifecycle")
    stack.callback(daemon.stop)
    first = harness.Process("mapped", [harness.PYTHON, "-c", test_stripped.MAP, test_lifecycle.LIBRARY])
    stack.callback(first.stop)
    harness.wait_target(daemon, first.pid)
    capture = begin(daemon, directory, [], "--memory")
    with models("batched") as directories:
        server = serve(stack, "native", directories, "--truth", truth)
        exchanges = load(stack, server, True, log, "batched", 60, 100)
        time.sleep(0.2)
        end(daemon, capture)
        server.stop()
    return {"label": "native REST", "rest": True, "model": "batched", "clients": 4, "rate": 100, "fresh": True, "port": server.port}, exchanges


def record_spans(stack, directory, log, truth):
    daemon = harness.Daemon()
    stack.callback(daemon.stop)
    with models("half_plus_two") as directories:
        server = serve(stack, "python", directories, "--truth", truth, "--spans")
        harness.wait_target(daemon, server.pid)
        harness.read_files(daemon, server)
        capture = begin(daemon, directory, [server.pid], "--memory")
        exchanges = load(stack, server, False, log, "half_plus_two", 60, 100)
        time.sleep(0.2)
        end(daemon, capture)
        server.stop()
    return {"label": "Python gRPC", "rest": False, "model": "half_plus_two", "clients": 4, "rate": 100, "python": True, "fresh": True,
            "port": server.port}, exchanges


def record_throttled(stack, directory, log, _):
    daemon = harness.Daemon()
    stack.callback(daemon.stop)
    group = test_throttled.Cgroup("serving")
    stack.callback(group.stop)
    with models("half_plus_two") as directories:
        server = serve(stack, "native", directories)
        harness.wait_target(daemon, server.pid)
        harness.read_files(daemon, server)
        group.add(server)
        group.limit(2)
        capture = begin(daemon, directory, [server.pid])
        load(stack, server, True, log, "half_plus_two", 60, 100)
        end(daemon, capture)
        server.stop()
    return None, []


def record_triton(stack, directory, log, _):
    """Two requests at a time of an ensemble, one over HTTP and one over gRPC."""
    daemon = harness.Daemon()
    stack.callback(daemon.stop)
    server = test_triton.Server(test_triton.WHEEL, directory)
    stack.callback(server.stop)
    harness.wait_target(daemon, server.pid)
    harness.read_files(daemon, server)
    capture = begin(daemon, directory, [server.pid])
    with concurrent.futures.ThreadPoolExecutor() as pool:
        clients = [pool.submit(test_triton.ask, kind, server, "ensemble", first, 12)
                   for first, kind in ((1, test_triton.HttpClient), (101, test_triton.GrpcClient))]
        exchanges = [exchange for client in clients for exchange in client.result()]
    end(daemon, capture)
    return None, exchanges


RECORDINGS = {"startup": record_startup, "spans": record_spans, "throttled": record_throttled, "triton": record_triton}


def main():
    for name in sys.argv[1:] or RECORDINGS:
        with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as temporary:
            directory = pathlib.Path(temporary)
            case, exchanges = RECORDINGS[name](stack, directory, directory / "client", directory / "truth")
            subprocess.run([harness.PYTHON, GOLDEN / "neutral.py", directory / "a.tfp", GOLDEN / f"{name}.tfp"], check=True)
            if case:
                truth = [json.loads(line) for line in (directory / "truth").read_text().splitlines()]
                lines = [{"case": case}, *({"client": e} for e in exchanges), *({"server": t} for t in truth)]
                (GOLDEN / f"{name}.log.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
            print(f"{name}: {(GOLDEN / f'{name}.tfp').stat().st_size} bytes, {len(exchanges)} requests")


main()
