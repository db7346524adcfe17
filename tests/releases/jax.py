#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of JAX with several of its releases. As root."""
import sys

import page
import test_jax

TEXT = """The wheels are for CPU and CPython 3.11. Runs and ops are compared with what the runtime's own profiler saw of the same threads: names, counts and order.
The server is one in Python; its requests are compared with the logs of clients and server. Answers are those of forked workers during captures,
compared bit by bit.

| release | runs compared | ops compared | runs wrong | requests compared | with exactly their run | requests wrong | answers compared | different |
|---|---|---|---|---|---|---|---|---|
"""
RELEASES = ("0.7.2", "0.9.0", "0.10.2")

sys.exit(page.main("JAX", "jax", "jax", RELEASES, (test_jax.Jax, test_jax.Served, test_jax.Harmless), test_jax.FIGURES, test_jax.FIGURE_NAMES, TEXT,
                   {release: (f"jaxlib=={release}",) for release in RELEASES}))
