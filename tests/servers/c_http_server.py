#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Python model server for tests, of any CPython without packages: one model of TensorFlow's library for C, which tests/servers/model.c runs, behind a REST
API (rest.py).

usage: c_http_server.py LIBRARY MODEL-DIRECTORY TRUTH-FILE [WAY]
LIBRARY: of model.c. WAY: of rest.py"""
import ctypes
import os
import sys

import rest

ERROR_SIZE = 256
LIBC = ctypes.CDLL(None)
LIBC.free.argtypes = [ctypes.c_void_p]


class Tensor(ctypes.Structure):
    """struct tensor of model.h."""
    _fields_ = [("dims_n", ctypes.c_int), ("dims", ctypes.c_int64 * 2), ("values", ctypes.POINTER(ctypes.c_float))]


def load():
    library, directory = ctypes.CDLL(sys.argv[1]), sys.argv[2]
    library.model_run.argtypes = [ctypes.c_void_p, ctypes.POINTER(Tensor), ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(Tensor)]
    model, error = ctypes.c_void_p(), ctypes.create_string_buffer(ERROR_SIZE)
    if library.model_load(os.fsencode(directory), error, ctypes.c_size_t(ERROR_SIZE), ctypes.byref(model)):
        sys.exit(f"c_http_server: {error.value.decode()}")

    def predict(instances):
        given, answer, text = Tensor(1, (len(instances), 0), (ctypes.c_float * len(instances))(*instances)), Tensor(), ctypes.create_string_buffer(ERROR_SIZE)
        if library.model_run(model, ctypes.byref(given), text, ERROR_SIZE, ctypes.byref(answer)):
            raise ValueError(text.value.decode())
        values = answer.values[:answer.dims[0]]
        LIBC.free(answer.values)
        return values
    return predict


rest.serve(load, *sys.argv[3:])
