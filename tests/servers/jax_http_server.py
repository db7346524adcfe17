#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Python model server for tests: a program of JAX behind a REST API (rest.py).

usage: jax_http_server.py TRUTH-FILE"""
import sys

import jax
import numpy

import rest


def load():
    function = jax.jit(lambda x: x * 0.5 + 2)
    function(numpy.ones(1, numpy.float32))
    return lambda instances: numpy.asarray(function(numpy.array(instances, numpy.float32))).tolist()


rest.serve(load, sys.argv[1])
