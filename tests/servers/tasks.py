# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Serving's REST predict API on 127.0.0.1 by nothing but the standard library: one event loop with a task for each request, or for each connection,
which hands the model's run to a pool of threads. Prints "listening on PORT" and "ready", and ends with SIGTERM or SIGINT."""
import asyncio
import concurrent.futures
import json
import re
import threading

from truth import run_until_signal, timed

WORKERS = 4
END_OF_HEAD = b"\r\n\r\n"


def number_of(head, name):
    return int(re.search(rb"(?i)\r\n%s: *(\d+)" % name, head)[1])


class Answers:
    def __init__(self, predict, truth):
        self.predict, self.truth = timed(predict), truth

    async def answer(self, transport, head, body):
        _, answer, run = await asyncio.to_thread(self.predict, None, body)
        text = json.dumps(answer).encode()
        self.truth.add(id=number_of(head, b"x-request-id"), protocol="http1", peer_port=transport.get_extra_info("peername")[1], **run)
        transport.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d%s%s" % (len(text), END_OF_HEAD, text))


class Connection(asyncio.Protocol):
    """Makes a task of each request when it has read it."""

    def __init__(self, answers):
        self.answers, self.received, self.tasks = answers, b"", set()

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.received += data
        head, end, body = self.received.partition(END_OF_HEAD)
        if not end or len(body) < number_of(head, b"content-length"):
            return
        # A client sends its next request when it has the answer.
        self.received = b""
        task = asyncio.get_running_loop().create_task(self.answers.answer(self.transport, head, body))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


def reader_of(answers):
    """What serves a connection in a task of its own, as asyncio.start_server() makes it."""
    async def serve_connection(reader, writer):
        try:
            while True:
                head = await reader.readuntil(END_OF_HEAD)
                await answers.answer(writer.transport, head, await reader.readexactly(number_of(head, b"content-length")))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
    return serve_connection


def new_loop():
    """A loop with a pool of threads."""
    loop = asyncio.new_event_loop()
    loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(WORKERS))
    return loop


def run_loop(loop, name, port, truth):
    """On a thread of that name, until a signal; then truth, which may be None, is written."""
    thread = threading.Thread(target=loop.run_forever, name=name)
    thread.start()
    run_until_signal(port)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    if truth:
        truth.write()


def serve(predict, truth, by_connection=False):
    """predict and truth as of asgi.serve()."""
    answers, loop = Answers(predict, truth), new_loop()
    where = {"host": "127.0.0.1", "port": 0, "backlog": 1024}
    server = loop.run_until_complete(asyncio.start_server(reader_of(answers), **where) if by_connection
                                     else loop.create_server(lambda: Connection(answers), **where))
    run_loop(loop, "tasks_loop", server.sockets[0].getsockname()[1], truth)
