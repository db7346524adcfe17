# SPDX-License-Identifier: Apache-2.0
"""Forked workers that run a program in JAX (answers.py). None refuses memory that is both writable and executable, which XLA's compiler needs.

usage: jax_answers.py"""
import answers


def load():
    # Not before the fork: it starts threads.
    import jax
    import jax_model
    jax.clear_caches()
    function, arguments = jax.jit(jax_model.layers), jax_model.inputs(4)
    return lambda: bytes(function(*arguments))


answers.serve(load, ((False, False), (True, False)))
