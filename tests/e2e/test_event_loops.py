#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Servers in which one thread reads and writes and others run: the request of each run, compared with what servers and clients know. As root."""
import collections

import harness
import test_requests
from test_requests import Case

EXACT = 0.95
# What the tests of interpreters have compared so far, for tests/releases.
FIGURE_NAMES = ("requests", "right_requests", "wrong_requests")
FIGURES = collections.Counter()
# Clients, and requests per second: as many as they can with 0.
LOADS = ((1, 100), (8, 200), (64, 0), (256, 0)) if harness.LONG else ((8, 200), (256, 0))


class PythonServer(harness.Server):
    def __init__(self, name, models=("half_plus_two",), keep=False, arguments=()):
        argv = [harness.PYTHON, harness.SERVERS / f"{name}.py", *arguments, *(harness.MODELS / m for m in models)]
        super().__init__(name, argv, (), False, keep)


class Loops(test_requests.Comparison):
    exact_at_least = EXACT

    def judge(self, case, figures, exact):
        problems = super().judge(case, figures, exact)
        if figures.right["exact"] < self.exact_at_least * figures.whole:
            problems.append(f"{case.label}, {case.clients} clients: only {figures.right['exact']} of {figures.whole} are exact")
        return problems

    def loads(self, label, rest, model="half_plus_two", python=True):
        return [Case(label, rest, model, clients, rate, python) for clients, rate in LOADS]


class EventLoops(Loops):
    def python(self, name, rest, label, *arguments):
        truth = self.directory / "truth"
        server = self.start(PythonServer, name, arguments=["--truth", truth, *arguments])
        server.grpc_port = server.port
        self.run_cases(server, truth, self.loads(label, rest))

    def test_asgi(self):
        self.python("asgi_server", True, "ASGI, threads")

    def test_asgi_uvloop(self):
        self.python("asgi_server", True, "ASGI, uvloop", "--loop", "uvloop")

    @harness.only_long
    def test_asgi_inline(self):
        self.python("asgi_server", True, "ASGI, loop's thread", "--inline")
        self.python("asgi_server", True, "uvloop's thread", "--inline", "--loop", "uvloop")

    def test_aiohttp(self):
        self.python("aiohttp_server", True, "aiohttp")

    def test_grpc_aio(self):
        self.python("grpc_aio_server", False, "grpc.aio")

    @harness.only_long
    def test_prefork(self):
        self.python("wsgi_server", True, "gunicorn")

    def test_prefork_threads(self):
        self.python("wsgi_server", True, "gunicorn, threads", "--worker-class", "gthread", "--threads", "4")

    def test_queue_with_marks(self):
        truth = self.directory / "truth"
        server = self.start(harness.NativeServer, ["half_plus_two"],
                            arguments=["--truth", truth, "--async-rest", "--mark-work", harness.OUT / "libtfprof.so"])
        self.run_cases(server, truth, self.loads("queue with marks", True, python=False))


class Interpreter(Loops):
    """The standard library's event loop, of another CPython; others are tested by tests/releases/cpython.py."""
    packages = harness.BUILD / "releases/cpython-3.12.3"

    def judge(self, case, figures, exact):
        FIGURES.update(wrong_requests=sum(figures.wrong.values()))
        if self.exact_at_least:
            FIGURES.update(requests=figures.whole, right_requests=figures.right["exact"])
        return super().judge(case, figures, exact)

    def serve(self, way):
        truth = self.directory / "truth"
        server = self.start(harness.Server, "c_http_server", [self.packages / "bin/python3", harness.SERVERS / "c_http_server.py",
                                                              harness.BUILD / "servers/libmodel.so", harness.MODELS / "half_plus_two", truth, way],
                            (), False, False)
        self.run_cases(server, truth, self.loads(way, True))

    def test_a_task_for_each_request(self):
        self.serve("tasks")

    def test_a_task_for_each_connection_has_no_wrong_request(self):
        self.exact_at_least = 0
        self.serve("streams")


if __name__ == "__main__":
    harness.main()
