#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of PyTorch with several of its releases. As root."""
import sys

import page
import test_pytorch

TEXT = """The wheels are those of PyPI for CPython 3.11. They are for GPUs of NVIDIA, and take 3 to 5 GB with what they need; the models run on CPUs. Ops are compared with
what the runtime's own profiler saw of the same threads: names and order. The servers are in Python: blocks in `no_grad` and `inference_mode`, and TorchScript;
their requests are compared with the logs of clients and servers. Answers are those of forked workers during captures, compared bit by bit. `make check` runs the
same with Debian's 1.13.1, and servers in C++.

| release | ops compared | ops wrong | requests compared | with exactly their run | requests wrong | answers compared | different |
|---|---|---|---|---|---|---|---|
"""
RELEASES = ("2.7.1", "2.11.0", "2.15.0")

sys.exit(page.main("PyTorch", "torch", "torch", RELEASES, (test_pytorch.PyTorch, test_pytorch.Served, test_pytorch.Harmless), test_pytorch.FIGURES,
                   test_pytorch.FIGURE_NAMES, TEXT, dict.fromkeys(RELEASES)))
