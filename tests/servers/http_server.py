#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Python model server for tests: TensorFlow Serving's REST predict API on 127.0.0.1, a thread for each connection.

Serves MODEL-DIRECTORY/VERSION (the highest) under the directory's name until SIGTERM or SIGINT. Prints
"listening on PORT" and "ready".
"""
import argparse
import http.server
import json
import re
import ssl
import sys
import threading
import time

from serving import Truth, add_arguments, load_models, predict, run_until_signal

BODY_MAX = 1 << 20
PATH = re.compile(r"/v1/models/([^:/]+):predict")


class Handler(http.server.BaseHTTPRequestHandler):
    # An answer in one piece, at once.
    wbufsize = -1
    disable_nagle_algorithm = True
    ordinal = 0

    def setup(self):
        self.accept_ns = self.server.accepted.pop(self.client_address)
        if self.server.context:
            self.request = self.server.context.wrap_socket(self.request, server_side=True)
        super().setup()

    def parse_request(self):
        self.read_ns = time.monotonic_ns()
        self.ordinal += 1
        return super().parse_request()

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return self.chunked_body()
        size = int(self.headers.get("Content-Length", 0))
        if not 0 <= size <= BODY_MAX:
            raise ValueError("the body is too large")
        return self.rfile.read(size)

    def chunked_body(self):
        body = b""
        while size := int(self.rfile.readline(64).partition(b";")[0], 16):
            if not 0 < size <= BODY_MAX - len(body):
                raise ValueError("the body is too large")
            body += self.rfile.read(size)
            self.rfile.readline(64)
        while self.rfile.readline(1024).strip():
            pass
        return body

    def predict(self):
        """The status, what the body is made of, and what the ground truth contains about the run."""
        try:
            body = self.body()
        except ValueError as e:
            # Where the next request begins is not known.
            self.close_connection = True
            return 400, {"error": str(e)}, {}
        match = PATH.fullmatch(self.path)
        return predict(self.server.models, match and match[1], body)

    def do_POST(self):
        status, answer, run = self.predict()
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
        if self.server.truth and run:
            self.server.truth.add(id=int(self.headers.get("x-request-id", 0)), protocol="http1",
                                  peer_port=self.client_address[1], stream=self.ordinal, accept_ns=self.accept_ns, read_ns=self.read_ns, **run)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, port, models, truth, context):
        self.models = models
        self.truth = truth
        self.context = context  # of TLS; None: without
        self.accepted = {}  # when, by the client's address, until its thread begins
        super().__init__(("127.0.0.1", port), Handler)

    def get_request(self):
        connection, address = super().get_request()
        self.accepted[address] = time.monotonic_ns()
        return connection, address


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--http10", action="store_true", help="HTTP/1.0: each connection ends with its answer")
    parser.add_argument("--unbuffered", action="store_true", help="answers in two pieces, with Nagle's algorithm, as the library does by default")
    parser.add_argument("--tls", nargs=2, metavar=("CERTIFICATE", "KEY"), help="serve encrypted connections")
    options = parser.parse_args()
    models = load_models("http_server", options)
    truth = Truth(options.truth) if options.truth else None
    Handler.protocol_version = "HTTP/1.0" if options.http10 else "HTTP/1.1"
    if options.unbuffered:
        Handler.wbufsize, Handler.disable_nagle_algorithm = 0, False
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH) if options.tls else None
    if context:
        context.load_cert_chain(*options.tls)
    try:
        server = Server(options.port, models, truth, context)
    except OSError as e:
        sys.exit(f"http_server: {e}")
    threading.Thread(target=server.serve_forever, name="http_accept", daemon=True).start()
    run_until_signal(server.server_address[1])
    server.shutdown()
    if truth:
        truth.write()


if __name__ == "__main__":
    main()
