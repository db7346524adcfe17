# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Serving's REST predict API on 127.0.0.1 for models of any runtime: processes that gunicorn forks beforehand. Prints "worker PID" for each
process that serves, then "listening on PORT" and "ready", and ends with SIGTERM or SIGINT."""
import http
import json
import multiprocessing
import os
import signal

import gunicorn.app.base

from truth import SIGNALS, Truth, timed


class Service:
    """Of one worker, which alone loads the runtime: not every one survives a fork."""

    def __init__(self, load, truth):
        self.predict = timed(load())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        self.truth = Truth(f"{truth}.{os.getpid()}") if truth else None

    def __call__(self, environ, start_response):
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        status, answer, run = self.predict(environ["PATH_INFO"].removeprefix("/v1/models/").removesuffix(":predict"), body)
        if self.truth and run:
            self.truth.add(id=int(environ.get("HTTP_X_REQUEST_ID", 0)), protocol="http1", peer_port=int(environ["REMOTE_PORT"]), **run)
        text = json.dumps(answer).encode()
        start_response(f"{status} {http.HTTPStatus(status).phrase}", [("Content-Type", "application/json"), ("Content-Length", str(len(text)))])
        return [text]


class Application(gunicorn.app.base.BaseApplication):
    def __init__(self, load, truth, settings):
        self.load_model, self.truth, self.settings = load, truth, settings
        self.started = multiprocessing.Value("i")  # shared with the workers
        super().__init__()

    def load_config(self):
        for key, value in {"backlog": 1024, "loglevel": "warning", "timeout": 120, "post_worker_init": self.on_worker, "worker_exit": self.on_exit,
                           "when_ready": self.on_listening, **self.settings}.items():
            self.cfg.set(key, value)

    def load(self):
        self.service = Service(self.load_model, self.truth)
        return self.service

    def on_listening(self, arbiter):
        print(f"listening on {arbiter.LISTENERS[0].sock.getsockname()[1]}", flush=True)

    def on_worker(self, worker):
        print(f"worker {worker.pid}", flush=True)
        with self.started.get_lock():
            self.started.value += 1
            if self.started.value == self.settings["workers"]:
                print("ready", flush=True)

    def on_exit(self, arbiter, worker):
        if self.service.truth:
            self.service.truth.write()


def serve(load, truth, port=0, workers=2, worker_class="sync", threads=1):
    """load(), in each worker, makes predict(model, body): the status, what the answer is made of, and what the ground truth says of the run, or
    nothing. Each worker writes its part of the ground truth into a file of its own: TRUTH.PID. truth may be None."""
    Application(load, truth, {"bind": f"127.0.0.1:{port}", "workers": workers, "worker_class": worker_class, "threads": threads}).run()
