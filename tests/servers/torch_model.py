# SPDX-License-Identifier: Apache-2.0
"""Models for PyTorch.

usage: torch_model.py FILE: writes HalfPlusTwo as TorchScript"""
import sys

import torch

WIDTH, LAYERS = 16, 4


class HalfPlusTwo(torch.nn.Module):
    def forward(self, x):
        return x * 0.5 + 2


class Model(torch.nn.Module):
    """Layers of two kinds, operations that have no result in Python, ones that return several tensors, and ones that fail."""

    def __init__(self, convolves):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.convolution = torch.nn.Conv1d(1, 2, 3) if convolves else None
        self.attention = None if convolves else torch.nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x)) + 1
        if self.convolution:
            x = torch.flatten(self.convolution(x.reshape(-1, 1, WIDTH)), 1)
        if self.attention:
            x, _ = self.attention(x[None], x[None], x[None])
        try:
            torch.matmul(x, torch.ones(3, 7))
        except RuntimeError:
            pass
        values, _ = torch.sort(torch.softmax(x, -1))
        return values.sum().item() + values.max().item()


if __name__ == "__main__":
    torch.jit.script(HalfPlusTwo().eval()).save(sys.argv[1])
