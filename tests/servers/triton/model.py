# SPDX-License-Identifier: Apache-2.0
"""A model of Triton's Python backend: the answer to x is x / 2 + 2, by PyTorch. A batch takes $TRITON_WORK_US. What it did is in the file
$TRITON_TRUTH.PID, a line for each request as in backend.c."""
import os
import time

import torch
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, _):
        torch.set_num_threads(1)
        self.truth = open(f"{os.environ['TRITON_TRUTH']}.{os.getpid()}", "w", buffering=1, encoding="utf-8")
        self.batches = 0

    def execute(self, requests):
        begin = time.monotonic_ns()
        self.batches += 1
        with torch.no_grad():
            answers = [torch.from_numpy(pb_utils.get_input_tensor_by_name(request, "x").as_numpy()) * 0.5 + 2 for request in requests]
        time.sleep(int(os.environ["TRITON_WORK_US"]) / 1e6)
        responses = [pb_utils.InferenceResponse([pb_utils.Tensor("y", y.numpy())]) for y in answers]
        end = time.monotonic_ns()
        for request in requests:
            print(os.getpid(), self.batches, len(requests), begin, end, request.request_id(), file=self.truth)
        return responses
