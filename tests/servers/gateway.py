#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A gateway for tests, on 127.0.0.1: it sends each request to the server BACKEND, HOST:PORT, and answers what that answers, a thread for each connection,
which has a connection of its own to the backend. Prints "listening on PORT" and "ready"; ends with SIGTERM.

usage: gateway.py BACKEND LOG
For each request the log has a line of JSON: its id (x-request-id), the port of the connection to the backend, and when it was sent there and
answered."""
import http.client
import http.server
import json
import signal
import sys
import threading
import time


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    backend = None

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.backend:
            self.backend = http.client.HTTPConnection(self.server.backend)
            self.backend.connect()
        sent = time.monotonic_ns()
        self.backend.request("POST", self.path, body, {"x-request-id": self.headers["x-request-id"], "Content-Type": "application/json"})
        answer = self.backend.getresponse()
        text = answer.read()
        answered = time.monotonic_ns()
        self.server.note({"id": int(self.headers["x-request-id"]), "port": self.backend.sock.getsockname()[1], "sent_ns": sent,
                          "answered_ns": answered})
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class Gateway(http.server.ThreadingHTTPServer):
    request_queue_size = 512
    daemon_threads = True

    def __init__(self, backend, log):
        super().__init__(("127.0.0.1", 0), Handler)
        self.backend = backend
        self.log = open(log, "w", encoding="utf-8")
        self.lock = threading.Lock()

    def note(self, entry):
        with self.lock:
            self.log.write(json.dumps(entry) + "\n")


def main():
    gateway = Gateway(sys.argv[1], sys.argv[2])
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=gateway.shutdown).start())
    print(f"listening on {gateway.server_address[1]}\nready", flush=True)
    gateway.serve_forever()
    gateway.log.close()


if __name__ == "__main__":
    main()
