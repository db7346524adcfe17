#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of ONNX Runtime with several of its releases. As root."""
import sys

import page
import test_onnxruntime

TEXT = """The wheels are for CPU and CPython 3.11. Runs and ops are compared with what
the runtime's own profiler wrote of the same sessions: names, types, counts and order. Servers are one in Python and one in C on the wheel's
`libonnxruntime.so` (`Run`, `RunWithBinding`); their requests are compared with the logs of clients and server. Answers are those of forked
workers during captures, compared bit by bit.

| release | runs compared | ops compared | runs wrong | requests compared | with exactly their run | requests wrong | answers compared | different |
|---|---|---|---|---|---|---|---|---|
"""

sys.exit(page.main("ONNX Runtime", "onnxruntime", "onnxruntime", ("1.23.2", "1.27.0", "1.31.1", "1.32.0"),
                   (test_onnxruntime.OnnxRuntime, test_onnxruntime.Served, test_onnxruntime.Harmless), test_onnxruntime.FIGURES,
                   test_onnxruntime.FIGURE_NAMES, TEXT))
