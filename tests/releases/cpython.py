#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of functions of Python programs with several releases of CPython. As root."""
import sys

import page
import pythons
import test_scripts

TEXT = """The builds are those of python-build-standalone, which uv installs; besides, Debian's 3.11 is tested. A program counts the CPU time of its functions, by
its threads' own clocks: the shares that sampled stacks show differ by so much at most. Another program makes functions, each with a file of its own, and frees
them: those that stacks show, and how many have another one's file.

| release | samples | shares differ by | functions made | wrong |
|---|---|---|---|---|
"""

sys.exit(page.main("CPython", None, None, pythons.RELEASES, (test_scripts.Scripts,), test_scripts.FIGURES, test_scripts.FIGURE_NAMES, TEXT,
                   get=lambda release: pythons.install(release)))
