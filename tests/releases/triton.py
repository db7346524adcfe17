#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of Triton Inference Server with several of its releases. As root."""
import sys

import page
import test_triton

TEXT = """The server is that of wheels `nvidia-pytriton`, unmodified, with a backend in C and with the Python backend. Requests over HTTP and gRPC, and their batches, are compared with what
the backend wrote down of each, with the order of times in the server's own trace, and in number and sums with its statistics (of ensembles, of each
step). Answers are those during captures, each compared with the right one.

| wheel | server | requests compared | with exactly their batches | requests wrong | batches | executions by its statistics | answers compared | different |
|---|---|---|---|---|---|---|---|---|
"""

sys.exit(page.main("Triton Inference Server", "nvidia-pytriton", "pytriton", test_triton.SERVERS, (test_triton.Triton,), test_triton.FIGURES,
                   test_triton.FIGURE_NAMES, TEXT))
