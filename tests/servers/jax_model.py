# SPDX-License-Identifier: Apache-2.0
"""Programs for JAX."""
import jax
import jax.numpy as jnp
import numpy

ROWS, WIDTH = 8, 64


def layers(x, w):
    """Fused ones, a matrix product in each layer, and some that are not fused."""
    for i in range(len(w)):
        x = jnp.tanh(x @ w[i]) + 1
    return jax.nn.softmax(jnp.sort(x, -1)).sum(-1)


def loop(x, w):
    """Operations in a loop, whose body is executed by an executor of its own, and in a branch."""
    def body(i, x):
        return jnp.cos(x @ w[0]) + i
    x = jax.lax.fori_loop(0, 5, body, x)
    return jax.lax.cond(x.sum() > 0, lambda x: jnp.sort(x, 0), lambda x: jnp.cumsum(x, 1), x)


def inputs(n):
    random = numpy.random.default_rng(7)
    return [random.standard_normal(shape, numpy.float32) for shape in ((ROWS, WIDTH), (n, WIDTH, WIDTH))]
