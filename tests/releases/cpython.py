#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of functions of Python programs, and of servers with an event loop, with several releases of CPython. As root."""
import collections
import sys

import page
import pythons
import test_event_loops
import test_scripts

TEXT = """The builds are those of python-build-standalone, which uv installs; besides, Debian's 3.11 is tested. A program counts the CPU time of its functions, by
its threads' own clocks: the shares that sampled stacks show differ by so much at most. Another program makes functions, each with a file of its own, and frees
them: those that stacks show, and how many have another one's file. A server with a task of asyncio for each request hands runs of TensorFlow's library for C to
threads; its requests are compared with the logs of clients and server. Of one with a task for each connection only wrong ones are counted.

| release | samples | shares differ by | functions made | wrong | requests compared | with exactly their run | requests wrong |
|---|---|---|---|---|---|---|---|
"""


class Figures(collections.ChainMap):
    def clear(self):
        for each in self.maps:
            each.clear()


sys.exit(page.main("CPython", None, None, pythons.RELEASES, (test_scripts.Scripts, test_event_loops.Interpreter),
                   Figures(test_scripts.FIGURES, test_event_loops.FIGURES), (*test_scripts.FIGURE_NAMES, *test_event_loops.FIGURE_NAMES), TEXT, get=lambda release: pythons.install(release)))
