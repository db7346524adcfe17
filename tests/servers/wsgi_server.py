#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Python model server for tests: models of TensorFlow in processes that gunicorn forks beforehand (wsgi.py).

Serves MODEL-DIRECTORY/VERSION (the highest) under the directory's name until SIGTERM or SIGINT.
"""
import argparse
import functools

import wsgi


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--profiler-port", type=int, help="start TensorFlow's in-process profiler there")
    parser.add_argument("--truth", metavar="FILE", help="at the end, write there who served which request")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="processes (2)")
    parser.add_argument("--worker-class", default="sync", help="of gunicorn (sync)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of a process of class gthread (1)")
    parser.add_argument("directories", nargs="+", metavar="MODEL-DIRECTORY")
    options = parser.parse_args()

    def load():
        # TensorFlow does not survive a fork.
        import serving
        return functools.partial(serving.predict, serving.load_models("wsgi_server", options))

    wsgi.serve(load, options.truth, options.port, options.workers, options.worker_class, options.threads)


if __name__ == "__main__":
    main()
