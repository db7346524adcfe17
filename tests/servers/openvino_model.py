# SPDX-License-Identifier: Apache-2.0
"""Models for OpenVINO, made of its own operations."""
import numpy
import openvino
from openvino import opset13 as op

WIDTH = 64


def weights(*shape):
    return op.constant(numpy.random.default_rng(7).standard_normal(shape, numpy.float32))


def layer():
    """Products, some with others fused into them, and a node whose name is not one of HLO or TensorFlow."""
    x = y = op.parameter([WIDTH, WIDTH], numpy.float32, name="x")
    for i in range(4):
        y = op.relu(op.matmul(y, weights(WIDTH, WIDTH), False, False, name=f"layer {i}/product"), name=f"layer {i}/relu")
        y = op.softmax(op.transpose(y, op.constant(numpy.array([1, 0])), name=f"layer {i}/turned"), 1, name=f"layer {i}/softmax")
    return openvino.Model([op.result(op.reduce_sum(y, op.constant(numpy.array([0])), False, name="layer sum"), name="out")], [x], "layer")


def rows():
    """Of any number of rows: shapes are known when it runs."""
    x = op.parameter(openvino.PartialShape([-1, WIDTH]), numpy.float32, name="x")
    y = op.softmax(op.matmul(x, weights(WIDTH, WIDTH), False, False, name="rows/product"), 1, name="rows/softmax")
    values = op.topk(y, op.constant(numpy.int32(8)), 1, "max", "value", name="rows/best").output(0)
    return openvino.Model([op.result(op.cum_sum(values, op.constant(numpy.int32(1)), name="rows/cumulated"), name="out")], [x], "rows")


def image():
    """A convolution and a pooling."""
    x = op.parameter([1, 3, 32, 32], numpy.float32, name="x")
    y = op.convolution(x, weights(8, 3, 3, 3), [1, 1], [0, 0], [0, 0], [1, 1], name="image/convolution")
    y = op.sigmoid(op.max_pool(y, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2], name="image/pool").output(0), name="image/sigmoid")
    return openvino.Model([op.result(op.reduce_mean(y, op.constant(numpy.array([2, 3])), False, name="image/mean"), name="out")], [x], "image")


def half_plus_two():
    x = op.parameter(openvino.PartialShape([-1]), numpy.float32, name="x")
    y = op.add(op.multiply(x, op.constant(numpy.float32(0.5))), op.constant(numpy.float32(2)), name="y")
    return openvino.Model([op.result(y, name="out")], [x], "half_plus_two")


def values(*shape):
    return numpy.random.default_rng(3).standard_normal(shape, numpy.float32)
