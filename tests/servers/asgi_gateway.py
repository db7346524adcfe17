#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""As gateway.py, on one event loop (uvicorn): each request has a task, and a connection of its own to the backend.

usage: asgi_gateway.py BACKEND LOG [uvloop]"""
import asyncio
import json
import signal
import socket
import sys
import threading
import time

import uvicorn

from asgi import PARSERS

BACKEND = sys.argv[1].split(":")


async def send_on(path, name, body):
    """(status, body) of the backend's answer, its line of the log."""
    reader, writer = await asyncio.open_connection(*BACKEND)
    port = writer.get_extra_info("sockname")[1]
    sent = time.monotonic_ns()
    writer.write(f"POST {path} HTTP/1.1\r\nHost: backend\r\nx-request-id: {name}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    answer = await reader.readexactly(int(head.partition("content-length:")[2].split()[0]))
    entry = {"id": int(name), "port": port, "sent_ns": sent, "answered_ns": time.monotonic_ns()}
    writer.close()
    return int(head.split()[1]), answer, entry


def make_app(log):
    async def app(scope, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        status, answer, entry = await send_on(scope["path"], dict(scope["headers"])[b"x-request-id"].decode(), body)
        log.write(json.dumps(entry) + "\n")
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", str(len(answer)).encode())]})
        await send({"type": "http.response.body", "body": answer})
    return app


def main():
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(1024)
    ends = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ends.set())
    with open(sys.argv[2], "w", encoding="utf-8") as log:
        loop = (sys.argv[3:] or ["asyncio"])[0]
        server = uvicorn.Server(uvicorn.Config(make_app(log), loop=loop, http=PARSERS[loop], lifespan="off", access_log=False, log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        print(f"listening on {listener.getsockname()[1]}\nready", flush=True)
        ends.wait()
        server.should_exit = True
        thread.join()


if __name__ == "__main__":
    main()
