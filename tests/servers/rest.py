# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Serving's REST predict API for one model of any runtime, a thread for each connection; prints "listening on PORT" and "ready", and
writes at SIGTERM or SIGINT who served which request."""
import http.server
import json
import signal
import threading
import time

from truth import SIGNALS, Truth, run_until_signal

MODEL = "half_plus_two"
# .thread: that on which the model ran, if it is another one than the caller's.
ran = threading.local()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    ordinal = 0

    def parse_request(self):
        self.read_ns = time.monotonic_ns()
        self.ordinal += 1
        return super().parse_request()

    def do_POST(self):
        instances = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["instances"]
        start_ns = time.monotonic_ns()
        predictions = self.server.predict(instances)
        end_ns = time.monotonic_ns()
        body = json.dumps({"predictions": predictions}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
        self.server.truth.add(id=int(self.headers["x-request-id"]), protocol="http1", peer_port=self.client_address[1], stream=self.ordinal,
                              read_ns=self.read_ns, thread=getattr(ran, "thread", threading.get_native_id()), run_start_ns=start_ns, run_end_ns=end_ns, model=MODEL)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


def serve(load, truth):
    """load() makes the function that predicts: from instances to predictions, both lists. Signals are blocked in its threads, too."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    server = Server(("127.0.0.1", 0), Handler)
    server.predict = load()
    server.truth = Truth(truth)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    run_until_signal(server.server_address[1])
    server.shutdown()
    server.truth.write()
