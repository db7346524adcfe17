# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Serving's REST predict API on 127.0.0.1 for models of any runtime: one event loop (uvicorn and Starlette, with asyncio's own loop or
with uvloop) that hands the models' runs to a pool of threads. Prints "listening on PORT" and "ready", and ends with SIGTERM or SIGINT."""
import socket
import threading

import anyio.to_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse
from starlette.routing import Route
import uvicorn

from truth import run_until_signal, timed


# Of HTTP, for each loop.
PARSERS = {"asyncio": "h11", "uvloop": "httptools"}


def serve(predict, truth, port=0, workers=4, inline=False, loop="asyncio"):
    """predict(model, body), on one of so many threads or inline on the loop's: the status, what the answer is made of, and what the ground truth
    says of the run, or nothing. truth may be None."""
    limited, predict = False, timed(predict)

    async def on_predict(request):
        nonlocal limited
        if not limited:
            anyio.to_thread.current_default_thread_limiter().total_tokens = workers
            limited = True
        call = request.path_params["model"].removesuffix(":predict"), await request.body()
        status, answer, run = predict(*call) if inline else await run_in_threadpool(predict, *call)
        if truth and run:
            truth.add(id=int(request.headers.get("x-request-id", 0)), protocol="http1", peer_port=request.client.port, **run)
        return JSONResponse(answer, status)

    app = Starlette(routes=[Route("/v1/models/{model}", on_predict, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, loop=loop, http=PARSERS[loop], lifespan="off", access_log=False, log_level="warning"))
    # asyncio sets TCP_NODELAY only where the protocol is given; else the end of each answer waits for an ACK.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", port))
    listener.listen(1024)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="asgi_loop")
    thread.start()
    run_until_signal(listener.getsockname()[1])
    server.should_exit = True
    thread.join()
    if truth:
        truth.write()
