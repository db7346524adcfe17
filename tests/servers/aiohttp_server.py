#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Python model server for tests: models of TensorFlow behind aiohttp's event loop, which has a task for each connection, and hands runs to threads.

Serves MODEL-DIRECTORY/VERSION (the highest) under the directory's name until SIGTERM or SIGINT. Prints
"listening on PORT" and "ready".
"""
import argparse
import asyncio
import socket

from aiohttp import web

from serving import Truth, add_arguments, load_models, predict
from tasks import new_loop, run_loop
from truth import timed


def application(models, truth):
    run_model = timed(lambda model, body: predict(models, model, body))

    async def on_predict(request):
        status, answer, run = await asyncio.to_thread(run_model, request.match_info["model"], await request.read())
        if truth and run:
            truth.add(id=int(request.headers.get("x-request-id", 0)), protocol="http1", peer_port=request.transport.get_extra_info("peername")[1], **run)
        return web.json_response(answer, status=status)

    app = web.Application()
    app.router.add_post("/v1/models/{model}:predict", on_predict)
    return app


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    options = parser.parse_args()
    models, truth = load_models("aiohttp_server", options), Truth(options.truth) if options.truth else None
    listener = socket.create_server(("127.0.0.1", options.port), backlog=1024)
    loop, runner = new_loop(), web.AppRunner(application(models, truth), access_log=None)
    loop.run_until_complete(runner.setup())
    loop.run_until_complete(web.SockSite(runner, listener, backlog=1024).start())
    run_loop(loop, "aiohttp_loop", listener.getsockname()[1], truth)


if __name__ == "__main__":
    main()
