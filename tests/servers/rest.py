# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Serving's REST predict API for one model of any runtime, a thread for each connection, an event loop with a pool of threads (asgi.py,
tasks.py), or forked processes (wsgi.py); prints "listening on PORT" and "ready", and writes at SIGTERM or SIGINT who served which request."""
import http.server
import json
import signal
import threading
import time

from truth import SIGNALS, Truth, run_until_signal

MODEL = "half_plus_two"
# .thread: that on which the model ran, if it is another one than the caller's.
ran = threading.local()


def predicted(predict, body):
    """The answer, and what the ground truth says of the run."""
    instances = json.loads(body)["instances"]
    start_ns = time.monotonic_ns()
    predictions = predict(instances)
    return {"predictions": predictions}, {"thread": getattr(ran, "thread", threading.get_native_id()), "run_start_ns": start_ns,
                                          "run_end_ns": time.monotonic_ns(), "model": MODEL}


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
        answer, run = predicted(self.server.predict, self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
        self.server.truth.add(id=int(self.headers["x-request-id"]), protocol="http1", peer_port=self.client_address[1], stream=self.ordinal,
                              read_ns=self.read_ns, **run)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


def predictor(predict):
    """The function of asgi.py and wsgi.py for it."""
    return lambda _, body: (200, *predicted(predict, body))


def serve(load, truth, way="threads"):
    """load() makes the function that predicts: from instances to predictions, both lists. Signals are blocked in its threads, too.
    way: a thread for each connection, a "loop" with a pool of threads, the same with "tasks" of the standard library, or with "streams", which have one for each
    connection, or forked "workers"."""
    def load_blocked():
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        return load()
    if way == "workers":
        import wsgi
        wsgi.serve(lambda: predictor(load_blocked()), truth)
        return
    predict = load_blocked()
    if way == "loop":
        import asgi
        asgi.serve(predictor(predict), Truth(truth))
        return
    if way in ("tasks", "streams"):
        import tasks
        tasks.serve(predictor(predict), Truth(truth), by_connection=way == "streams")
        return
    server = Server(("127.0.0.1", 0), Handler)
    server.predict = predict
    server.truth = Truth(truth)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    run_until_signal(server.server_address[1])
    server.shutdown()
    server.truth.write()
