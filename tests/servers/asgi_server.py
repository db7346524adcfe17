#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Python model server for tests: models of TensorFlow behind an event loop (asgi.py).

Serves MODEL-DIRECTORY/VERSION (the highest) under the directory's name until SIGTERM or SIGINT. Prints
"listening on PORT" and "ready".
"""
import argparse
import json
import time

from serving import Truth, VALUES_MAX, add_arguments, load_models, tf
import asgi


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--workers", type=int, default=4, metavar="N", help="threads that run models (4)")
    parser.add_argument("--inline", action="store_true", help="the loop's thread runs them")
    parser.add_argument("--loop", choices=asgi.PARSERS, default="asyncio")
    options = parser.parse_args()
    models = load_models("asgi_server", options)

    def predict(name, body):
        read_ns = time.monotonic_ns()
        model = models.get(name)
        if model is None:
            return 404, {"error": "no such model"}, {}
        try:
            instances = tf.constant(json.loads(body)["instances"], tf.float32)
            if instances.shape.num_elements() > VALUES_MAX:
                raise ValueError("the input is too large")
            outputs, run = model.run(x=instances)
        except (KeyError, TypeError, ValueError, tf.errors.OpError) as e:
            return 400, {"error": str(e)}, {}
        return 200, {"predictions": outputs["y"].tolist()}, run | {"read_ns": read_ns}

    asgi.serve(predict, Truth(options.truth) if options.truth else None, options.port, options.workers, options.inline, options.loop)


if __name__ == "__main__":
    main()
