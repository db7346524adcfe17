#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Python model server for tests: TensorFlow Serving's REST predict API on 127.0.0.1, processes that gunicorn forks beforehand.

Serves MODEL-DIRECTORY/VERSION (the highest) under the directory's name until SIGTERM or SIGINT. Prints "worker PID" for each process that
serves, then "listening on PORT" and "ready". Each worker writes its part of the ground truth into a file of its own: FILE.PID.
"""
import argparse
import json
import multiprocessing
import os
import signal
import time

import gunicorn.app.base


class Service:
    """Of one worker, which alone loads TensorFlow: it does not survive a fork."""

    def __init__(self, options):
        import serving
        self.serving = serving
        self.models = serving.load_models("wsgi_server", options)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, serving.SIGNALS)
        self.truth = serving.Truth(f"{options.truth}.{os.getpid()}") if options.truth else None

    def predict(self, environ):
        read_ns = time.monotonic_ns()
        tf = self.serving.tf
        model = self.models.get(environ["PATH_INFO"].removeprefix("/v1/models/").removesuffix(":predict"))
        if model is None:
            return "404 Not Found", {"error": "no such path or model"}
        try:
            instances = tf.constant(json.load(environ["wsgi.input"])["instances"], tf.float32)
            if instances.shape.num_elements() > self.serving.VALUES_MAX:
                raise ValueError("the input is too large")
            outputs, run = model.run(x=instances)
        except (KeyError, TypeError, ValueError, tf.errors.OpError) as e:
            return "400 Bad Request", {"error": str(e)}
        if self.truth:
            self.truth.add(id=int(environ.get("HTTP_X_REQUEST_ID", 0)), protocol="http1", peer_port=int(environ["REMOTE_PORT"]),
                           read_ns=read_ns, **run)
        return "200 OK", {"predictions": outputs["y"].tolist()}

    def __call__(self, environ, start_response):
        status, answer = self.predict(environ)
        body = json.dumps(answer).encode()
        start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]


class Application(gunicorn.app.base.BaseApplication):
    def __init__(self, options):
        self.options = options
        self.started = multiprocessing.Value("i")  # shared with the workers
        super().__init__()

    def load_config(self):
        for key, value in {"bind": f"127.0.0.1:{self.options.port}", "workers": self.options.workers, "worker_class": self.options.worker_class,
                           "threads": self.options.threads, "backlog": 1024, "loglevel": "warning", "timeout": 120,
                           "post_worker_init": self.on_worker, "worker_exit": self.on_exit, "when_ready": self.on_listening}.items():
            self.cfg.set(key, value)

    def load(self):
        self.service = Service(self.options)
        return self.service

    def on_listening(self, arbiter):
        self.port = arbiter.LISTENERS[0].sock.getsockname()[1]
        print(f"listening on {self.port}", flush=True)

    def on_worker(self, worker):
        print(f"worker {worker.pid}", flush=True)
        with self.started.get_lock():
            self.started.value += 1
            if self.started.value == self.options.workers:
                print("ready", flush=True)

    def on_exit(self, arbiter, worker):
        if self.service.truth:
            self.service.truth.write()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--profiler-port", type=int, help="start TensorFlow's in-process profiler there")
    parser.add_argument("--truth", metavar="FILE", help="at the end, write there who served which request")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="processes (2)")
    parser.add_argument("--worker-class", default="sync", help="of gunicorn (sync)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of a process of class gthread (1)")
    parser.add_argument("directories", nargs="+", metavar="MODEL-DIRECTORY")
    Application(parser.parse_args()).run()


if __name__ == "__main__":
    main()
