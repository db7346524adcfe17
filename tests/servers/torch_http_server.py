#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Python model server for tests: a model of PyTorch behind a REST API (rest.py).

usage: torch_http_server.py RUN TRUTH-FILE [WAY PACKAGES]
RUN: no_grad (nested blocks), inference_mode, TorchScript (in no block), or off (no gradients from a thread's first request on)
WAY: of rest.py; PyTorch is in PACKAGES, and the interpreter's own packages come first"""
import sys

sys.path += sys.argv[4:]
import torch

import rest
import torch_model


def nested(x):
    with torch.no_grad():
        with torch.no_grad():
            half = x * 0.5
        # Within the outer one.
        return half + 2


def load():
    torch.set_num_threads(1)
    model = torch_model.HalfPlusTwo().eval()
    script = torch.jit.script(model)
    # What an executor does at its first runs is not what it does later.
    for _ in range(3):
        script(torch.ones(1))

    def in_inference_mode(instances):
        with torch.inference_mode():
            # The last operation gives Python no tensor.
            return [value.item() for value in model(torch.tensor(instances))]

    def off(instances):
        torch.set_grad_enabled(False)
        with torch.no_grad():
            return model(torch.tensor(instances)).tolist()
    return {"off": off, "no_grad": lambda instances: nested(torch.tensor(instances)).tolist(), "inference_mode": in_inference_mode,
            "TorchScript": lambda instances: script(torch.tensor(instances)).tolist()}[sys.argv[1]]


rest.serve(load, *sys.argv[2:4])
