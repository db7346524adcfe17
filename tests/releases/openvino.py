#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of OpenVINO with several of its releases. As root."""
import sys

import page
import test_openvino

TEXT = """The wheels are for CPU and CPython 3.11. Runs are compared with the calls of the program that made them; their ops with the runtime's own profile of nodes
(`PERF_COUNT`): names, counts and order. The server is one in Python, whose runs are on the threads of its connections or on the runtime's; its requests are
compared with the logs of clients and server. Answers are those of forked workers during captures, compared bit by bit.

| release | runs compared | ops compared | runs wrong | requests compared | with exactly their run | requests wrong | answers compared | different |
|---|---|---|---|---|---|---|---|---|
"""

sys.exit(page.main("OpenVINO", "openvino", "openvino", ("2026.0.0", "2026.2.1", "2026.4.1"),
                   (test_openvino.OpenVino, test_openvino.Served, test_openvino.Harmless), test_openvino.FIGURES, test_openvino.FIGURE_NAMES, TEXT))
