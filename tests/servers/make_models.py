#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Saves the models that the test servers serve, as OUTDIR/NAME/1/.

half_plus_two  y = x / 2 + 2, as in TensorFlow Serving's examples
layered        24 small layers of eight ops each: with one row what an op costs is mostly not its arithmetic (0.5 us),
               with 256 rows an op takes some 5 us
batched        requests are put together to batches of up to 16 rows, padded to a power of two, within 2 ms; to x it answers
               [x / 2 + 2, the largest x of the batch, the rows of the batch with padding]: with an x of its own, every
               request knows whom it shared its batch with. Whole numbers up to 2^23 are exact.
batched_slow   the same with batches of up to 64 rows, not padded, within 10 ms, which a lone request waits
compiled       four dense layers in one function that XLA compiles, once for each number of rows
pipeline       takes the rows of a request through a tf.data pipeline, of which one IteratorGetNext gives them all
encoder        two layers of a transformer's encoder over 64 tokens, a third as wide as BERT's, with weights by chance
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


class Compiled(tf.Module):
    def __init__(self):
        super().__init__()
        random = np.random.RandomState(13)
        self.weight = [tf.Variable((random.randn(WIDTH, WIDTH) * 0.1).astype("f"), name=f"weight_{i}") for i in range(4)]

    @tf.function(jit_compile=True)
    def compiled_layers(self, x):
        for weight in self.weight:
            x = tf.nn.relu(tf.matmul(x, weight))
        return tf.nn.softmax(x)

    @tf.function(input_signature=[tf.TensorSpec([None, WIDTH], tf.float32, name="x")])
    def serve(self, x):
        return {"y": self.compiled_layers(x)}


class Pipeline(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, WIDTH], tf.float32, name="x")])
    def serve(self, x):
        rows = tf.data.Dataset.from_tensor_slices(x)
        rows = rows.map(lambda row: tf.nn.softmax(row / (tf.math.reduce_std(row) + 1.0)))
        y = next(iter(rows.batch(tf.shape(x, out_type=tf.int64)[0])))
        return {"y": tf.ensure_shape(y, [None, WIDTH])}


class Encoder(tf.Module):
    """BERT's shape, small: embeddings, self-attention, a wider layer with GELU, each with its residual and normalisation."""

    HIDDEN, HEADS, WIDE, VOCABULARY = 256, 4, 1024, 1000

    def __init__(self, layers=2):
        super().__init__()
        self.random = np.random.RandomState(17)
        self.words = self._variable("words", self.VOCABULARY, self.HIDDEN)
        self.places = self._variable("places", WIDTH, self.HIDDEN)
        self.layers = [{name: self._variable(f"{name}_{i}", *shape) for name, shape in (
            ("query", (self.HIDDEN, self.HIDDEN)), ("key", (self.HIDDEN, self.HIDDEN)), ("value", (self.HIDDEN, self.HIDDEN)),
            ("output", (self.HIDDEN, self.HIDDEN)), ("wide", (self.HIDDEN, self.WIDE)), ("narrow", (self.WIDE, self.HIDDEN)))}
            for i in range(layers)]

    def _variable(self, name, *shape):
        return tf.Variable((self.random.randn(*shape) * 0.1).astype("f"), name=name)

    @staticmethod
    def _normalise(x):
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + 1e-6)

    def _heads(self, x, weight):
        x = tf.tensordot(x, weight, 1)
        return tf.transpose(tf.reshape(x, [-1, WIDTH, self.HEADS, self.HIDDEN // self.HEADS]), [0, 2, 1, 3])

    def _attend(self, x, layer):
        query, key, value = (self._heads(x, layer[name]) for name in ("query", "key", "value"))
        scores = tf.matmul(query, key, transpose_b=True) / (self.HIDDEN / self.HEADS) ** 0.5
        y = tf.transpose(tf.matmul(tf.nn.softmax(scores), value), [0, 2, 1, 3])
        return tf.tensordot(tf.reshape(y, [-1, WIDTH, self.HIDDEN]), layer["output"], 1)

    @tf.function(input_signature=[tf.TensorSpec([None, WIDTH], tf.float32, name="x")])
    def serve(self, x):
        tokens = tf.cast(tf.math.floormod(tf.abs(x), self.VOCABULARY), tf.int32)
        x = tf.gather(self.words, tokens) + self.places
        for i, layer in enumerate(self.layers):
            with tf.name_scope(f"layer_{i}"):
                with tf.name_scope("attention"):
                    x = self._normalise(x + self._attend(x, layer))
                with tf.name_scope("dense"):
                    wide = tf.nn.gelu(tf.tensordot(x, layer["wide"], 1), approximate=True)
                    x = self._normalise(x + tf.tensordot(wide, layer["narrow"], 1))
        return {"y": tf.nn.softmax(tf.reduce_mean(x, axis=1))}


class Batched(tf.Module):
    """Some layers stand within the batch, so that it takes time; they count for nothing in the answer, which grappler does
    not know."""

    WIDTH = 128
    LAYERS = 6

    def __init__(self, rows_max, timeout_us, allowed_sizes):
        super().__init__()
        random = np.random.RandomState(11)
        self.weight = [tf.Variable((random.randn(self.WIDTH, self.WIDTH) * 0.1).astype("f"), name=f"weight_{i}")
                       for i in range(self.LAYERS)]
        self.nothing = tf.Variable(0.0, name="nothing")
        # A request that does not fit is not split: it is of one batch.
        batch = tf.nondifferentiable_batch_function(num_batch_threads=2, max_batch_size=rows_max,
                                                    batch_timeout_micros=timeout_us, allowed_batch_sizes=allowed_sizes,
                                                    max_enqueued_batches=1000, enable_large_batch_splitting=False)
        self.batch = batch(self.run_batch)

    def run_batch(self, x):
        h = tf.tile(tf.sin(x)[:, tf.newaxis], [1, self.WIDTH])
        for i, weight in enumerate(self.weight):
            h = tf.tanh(tf.matmul(h, weight, name=f"matmul_{i}"), name=f"tanh_{i}")
        y = x / 2 + 2 + self.nothing * tf.reduce_sum(h, axis=1)
        largest = tf.fill(tf.shape(x), tf.reduce_max(x))
        rows = tf.fill(tf.shape(x), tf.cast(tf.size(x), tf.float32))
        return tf.stack([y, largest, rows], axis=1)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def serve(self, x):
        y = self.batch(x)
        return {"y": tf.ensure_shape(y, [None, 3])}


MODELS = {"half_plus_two": HalfPlusTwo, "layered": Layered, "compiled": Compiled, "pipeline": Pipeline, "encoder": Encoder, "twin_a": lambda: Layered(4, "a"),
          "twin_b": lambda: Layered(4, "b"), "batched": lambda: Batched(16, 2000, [1, 2, 4, 8, 16]),
          "batched_slow": lambda: Batched(64, 10000, None)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("outdir")
    outdir = parser.parse_args().outdir
    for name, cls in MODELS.items():
        model = cls()
        tf.saved_model.save(model, os.path.join(outdir, name, "1"), signatures={"serving_default": model.serve})


if __name__ == "__main__":
    main()
