# SPDX-License-Identifier: Apache-2.0
"""A model for ONNX Runtime: layers of a product and a tanh, written as ONNX's protocol buffer (onnx.proto) without its package."""
import struct

WIDTH = 64
FLOAT = 1
MODEL_IR, OPSET = 8, 17


def _varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def _bytes(field, value):
    value = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _int(field, value):
    return _varint(field << 3) + _varint(value)


def _node(name, kind, inputs, output):
    return _bytes(1, b"".join(_bytes(1, i) for i in inputs) + _bytes(2, output) + _bytes(3, name) + _bytes(4, kind))


def _value(name):
    shape = b"".join(_bytes(1, _int(1, size)) for size in (1, WIDTH))
    return _bytes(1, name) + _bytes(2, _bytes(1, _int(1, FLOAT) + _bytes(2, shape)))


def nodes(layers):
    """Names and types of the model's operations, in the order in which they run."""
    return [(f"layer_{i}/{kind}", kind) for i in range(layers) for kind in ("MatMul", "Tanh")]


def model(layers):
    graph, value = b"", "x"
    for i in range(layers):
        graph += _node(f"layer_{i}/MatMul", "MatMul", [value, "w"], f"product_{i}")
        value = f"layer_{i}"
        graph += _node(f"layer_{i}/Tanh", "Tanh", [f"product_{i}"], value)
    weights = struct.pack(f"<{WIDTH * WIDTH}f", *[0.01] * WIDTH * WIDTH)
    graph += _bytes(2, "layers") + _bytes(5, _int(1, WIDTH) + _int(1, WIDTH) + _int(2, FLOAT) + _bytes(8, "w") + _bytes(9, weights))
    graph += _bytes(11, _value("x")) + _bytes(12, _value(value))
    return _int(1, MODEL_IR) + _bytes(8, _int(2, OPSET)) + _bytes(7, graph)
