# SPDX-License-Identifier: Apache-2.0
"""What Python test servers of every runtime share: the ground truth of who served which request, and how they run."""
import json
import signal
import sys
import time

RECORDS_MAX = 1 << 19
SIGNALS = {signal.SIGTERM, signal.SIGINT}


class Truth:
    """Kept in memory and written at the end, so that a profiler sees nothing of it. Times are CLOCK_MONOTONIC."""

    def __init__(self, path):
        self.path = path
        self.records = []
        self.left_out = 0

    def add(self, **record):
        """Completes the record of a request that is answered from here on."""
        if len(self.records) >= RECORDS_MAX:
            self.left_out += 1
            return
        record["done_ns"] = time.monotonic_ns()
        self.records.append(record)

    def write(self):
        with open(self.path, "w") as out:
            for record in self.records:
                out.write(json.dumps(record) + "\n")
        if self.left_out:
            print(f"truth: {self.left_out} requests were not recorded", file=sys.stderr)


def timed(predict):
    """predict(model, body) of asgi.py and wsgi.py; the run, if there is one, has when it began to be read."""
    def predict_timed(model, body):
        read_ns = time.monotonic_ns()
        status, answer, run = predict(model, body)
        return status, answer, run and run | {"read_ns": read_ns}
    return predict_timed


def run_until_signal(port):
    print(f"listening on {port}\nready", flush=True)
    signal.sigwait(SIGNALS)
