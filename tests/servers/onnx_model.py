# SPDX-License-Identifier: Apache-2.0
"""Models for ONNX Runtime, written as ONNX's protocol buffer (onnx.proto) without its package. Each has an input x and an output y of
(1, WIDTH) floats."""
import struct

WIDTH = 64
FLOAT, INT64, BOOL = 1, 7, 9
GRAPH = 5
MODEL_IR, OPSET = 8, 17
TURNS = 3


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


def _node(name, kind, inputs, output, attributes=b""):
    """Without a name if that is empty."""
    outputs = b"".join(_bytes(2, o) for o in (output if isinstance(output, tuple) else (output,)))
    return _bytes(1, b"".join(_bytes(1, i) for i in inputs) + outputs + (_bytes(3, name) if name else b"") + _bytes(4, kind) + attributes)


def _value(name, kind=FLOAT, shape=(1, WIDTH)):
    return _bytes(1, name) + _bytes(2, _bytes(1, _int(1, kind) + _bytes(2, b"".join(_bytes(1, _int(1, size)) for size in shape))))


def _constant(name, kind, shape, values):
    return _bytes(5, b"".join(_int(1, size) for size in shape) + _int(2, kind) + _bytes(8, name) + _bytes(9, values))


def _weights(name, shape, value):
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    return _constant(name, FLOAT, shape, struct.pack(f"<{count}f", *[value] * count))


def _model(name, nodes):
    graph = nodes + _bytes(2, name) + _weights("w", (WIDTH, WIDTH), 0.01) + _bytes(11, _value("x")) + _bytes(12, _value("y"))
    return _int(1, MODEL_IR) + _bytes(8, _int(2, OPSET)) + _bytes(7, graph)


def half_plus_two():
    """y = x / 2 + 2, of a list of floats."""
    graph = _node("half", "Mul", ["x", "a"], "half") + _node("plus_two", "Add", ["half", "b"], "y") + _bytes(2, "half_plus_two")
    graph += _weights("a", (1,), 0.5) + _weights("b", (1,), 2.0)
    open_list = _bytes(2, _bytes(1, _int(1, FLOAT) + _bytes(2, _bytes(1, _bytes(2, "rows")))))
    graph += _bytes(11, _bytes(1, "x") + open_list) + _bytes(12, _bytes(1, "y") + open_list)
    return _int(1, MODEL_IR) + _bytes(8, _int(2, OPSET)) + _bytes(7, graph)


def nodes(layers, scope="layer"):
    """Names and types of the operations of layered(), in the order in which they run."""
    return [(f"{scope}_{i}/{kind}", kind) for i in range(layers) for kind in ("MatMul", "Tanh")]


def layered(layers, scope="layer"):
    """Layers of a product and a tanh."""
    graph, value = b"", "x"
    for i in range(layers):
        graph += _node(f"{scope}_{i}/MatMul", "MatMul", [value, "w"], f"product_{i}")
        value = f"value_{i}" if i < layers - 1 else "y"
        graph += _node(f"{scope}_{i}/Tanh", "Tanh", [f"product_{i}"], value)
    return _model("layers", graph)


def control():
    """A loop around a graph of its own, an operation that the runtime fuses, and ones without names."""
    body = _node("body/Tanh", "Tanh", ["state"], "bent") + _node("", "Sin", ["bent"], "next") + _node("body/keep", "Identity", ["more"], "on")
    body += _bytes(2, "body") + _bytes(11, _value("turn", INT64, ())) + _bytes(11, _value("more", BOOL, ())) + _bytes(11, _value("state"))
    body += _bytes(12, _value("on", BOOL, ())) + _bytes(12, _value("next"))
    graph = _node("", "MatMul", ["x", "w"], "product") + _node("sum", "Add", ["product", "b"], "sum") + _node("", "Relu", ["sum"], "positive")
    graph += _node("loop", "Loop", ["turns", "yes", "positive"], "turned", _bytes(5, _bytes(1, "body") + _int(20, GRAPH) + _bytes(6, body)))
    graph += _node("", "Tanh", ["turned"], "y") + _weights("b", (WIDTH,), 0.5)
    graph += _constant("turns", INT64, (), struct.pack("<q", TURNS)) + _constant("yes", BOOL, (), b"\1")
    return _model("control", graph)


def wide(branches):
    """Branches that do not need one another, for inter-op threads, and their sum."""
    graph = _node("total", "Sum", [f"bent_{i}" for i in range(branches)], "y")
    for i in range(branches):
        graph += _node(f"branch_{i}/MatMul", "MatMul", ["x", f"w_{i}"], f"product_{i}") + _node(f"branch_{i}/Tanh", "Tanh", [f"product_{i}"], f"bent_{i}")
        graph += _weights(f"w_{i}", (WIDTH, WIDTH), 0.01 * (i + 1))
    return _model("wide", graph)
