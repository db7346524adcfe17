#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Python model server for tests: TensorFlow Serving's REST predict API on 127.0.0.1, one event loop (uvicorn and Starlette) that hands the
models' runs to a pool of threads.

Serves MODEL-DIRECTORY/VERSION (the highest) under the directory's name until SIGTERM or SIGINT. Prints
"listening on PORT" and "ready".
"""
import argparse
import json
import socket
import threading
import time

from serving import Truth, VALUES_MAX, add_arguments, load_models, run_until_signal, tf
import anyio.to_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse
from starlette.routing import Route
import uvicorn


class Service:
    def __init__(self, options):
        self.models = load_models("asgi_server", options)
        self.truth = Truth(options.truth) if options.truth else None
        self.inline = options.inline
        self.workers = options.workers
        self.limited = False

    def predict(self, model, body):
        """On a thread of the pool: the status, what the body is made of, and the ground truth."""
        read_ns = time.monotonic_ns()
        try:
            instances = tf.constant(json.loads(body)["instances"], tf.float32)
            if instances.shape.num_elements() > VALUES_MAX:
                raise ValueError("the input is too large")
            outputs, run = model.run(x=instances)
        except (KeyError, TypeError, ValueError, tf.errors.OpError) as e:
            return 400, {"error": str(e)}, {}
        return 200, {"predictions": outputs["y"].tolist()}, run | {"read_ns": read_ns}

    async def on_predict(self, request):
        model = self.models.get(request.path_params["model"].removesuffix(":predict"))
        if model is None:
            return JSONResponse({"error": "no such model"}, 404)
        if not self.limited:
            anyio.to_thread.current_default_thread_limiter().total_tokens = self.workers
            self.limited = True
        body = await request.body()
        if self.inline:
            status, answer, run = self.predict(model, body)
        else:
            status, answer, run = await run_in_threadpool(self.predict, model, body)
        if self.truth and run:
            self.truth.add(id=int(request.headers.get("x-request-id", 0)), protocol="http1", peer_port=request.client.port, **run)
        return JSONResponse(answer, status)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--workers", type=int, default=4, metavar="N", help="threads that run models (4)")
    parser.add_argument("--inline", action="store_true", help="the loop's thread runs them")
    options = parser.parse_args()
    service = Service(options)
    app = Starlette(routes=[Route("/v1/models/{model}", service.on_predict, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, loop="asyncio", http="h11", lifespan="off", access_log=False, log_level="warning"))
    # asyncio sets TCP_NODELAY only where the protocol is given; else the end of each answer waits for an ACK.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", options.port))
    listener.listen(1024)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="asgi_loop")
    thread.start()
    run_until_signal(listener.getsockname()[1])
    server.should_exit = True
    thread.join()
    if service.truth:
        service.truth.write()


if __name__ == "__main__":
    main()
