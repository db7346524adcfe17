#!/usr/bin/env python3
"""Saves the models that the test servers serve, as OUTDIR/NAME/1/.

half_plus_two  y = x / 2 + 2, as in TensorFlow Serving's examples
layered        24 small layers of eight ops each: with one row what an op costs is mostly not its arithmetic (0.5 us),
               with 256 rows an op takes some 5 us
twin_a twin_b  the same four layers under other names, so that one model takes the memory that the other one left
"""
import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf

LAYERS = 24
WIDTH = 64


class HalfPlusTwo(tf.Module):
    def __init__(self):
        super().__init__()
        self.a = tf.Variable(0.5, name="a")
        self.b = tf.Variable(2.0, name="b")

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def serve(self, x):
        return {"y": tf.add(tf.multiply(self.a, x), self.b)}


class Layered(tf.Module):
    """The multiplication stands between matmul and bias_add because grappler would fuse the two; weights are variables
    because it would fold constants."""

    def __init__(self, layers=LAYERS, scope="layer"):
        super().__init__()
        random = np.random.RandomState(7)
        self.scope = scope
        self.weight = [self._variable(random.randn(WIDTH, WIDTH) * 0.1, "weight", i) for i in range(layers)]
        self.scale = [self._variable(np.ones(WIDTH), "scale", i) for i in range(layers)]
        self.bias = [self._variable(random.randn(WIDTH) * 0.1, "bias", i) for i in range(layers)]

    @staticmethod
    def _variable(value, name, layer):
        return tf.Variable(value.astype("f"), name=f"{name}_{layer}")

    @tf.function(input_signature=[tf.TensorSpec([None, WIDTH], tf.float32, name="x")])
    def serve(self, x):
        for i in range(len(self.weight)):
            with tf.name_scope(f"{self.scope}_{i}"):
                h = tf.matmul(x, self.weight[i], name="matmul")
                h = tf.multiply(h, self.scale[i], name="scale")
                h = tf.nn.bias_add(h, self.bias[i], name="bias_add")
                h = tf.nn.relu(h, name="relu")
                x = tf.add(x, h, name="residual")
        return {"y": tf.nn.softmax(x, name="softmax")}


MODELS = {"half_plus_two": HalfPlusTwo, "layered": Layered, "twin_a": lambda: Layered(4, "a"),
          "twin_b": lambda: Layered(4, "b")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("outdir")
    outdir = parser.parse_args().outdir
    for name, cls in MODELS.items():
        model = cls()
        tf.saved_model.save(model, os.path.join(outdir, name, "1"), signatures={"serving_default": model.serve})


if __name__ == "__main__":
    main()
