#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Python model server for tests: models of TensorFlow behind an event loop (asgi.py).

Serves MODEL-DIRECTORY/VERSION (the highest) under the directory's name until SIGTERM or SIGINT. Prints
"listening on PORT" and "ready".
"""
import argparse
import functools

from serving import Truth, add_arguments, load_models, predict
import asgi


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--workers", type=int, default=4, metavar="N", help="threads that run models (4)")
    parser.add_argument("--inline", action="store_true", help="the loop's thread runs them")
    parser.add_argument("--loop", choices=asgi.PARSERS, default="asyncio")
    options = parser.parse_args()
    models = load_models("asgi_server", options)
    asgi.serve(functools.partial(predict, models), Truth(options.truth) if options.truth else None, options.port, options.workers, options.inline, options.loop)


if __name__ == "__main__":
    main()
