# SPDX-License-Identifier: Apache-2.0
"""Batches of the op BatchFunction: as many are captured as the answers show."""
import concurrent.futures
import http.client
import json
import time

import harness

CLIENTS, REQUESTS = 4, 60
# The window opens so long after it was asked for, and the clients begin so long after that.
AHEAD_S, LATER_S, WINDOW_S = 2, 0.5, 6


def ask(port, first):
    """{x: (largest x of its batch, rows of the batch with padding)} of one client's requests, one after the other."""
    connection = http.client.HTTPConnection(f"127.0.0.1:{port}", timeout=30)
    found = {}
    for x in range(first, first + REQUESTS):
        connection.request("POST", "/v1/models/batched:predict", json.dumps({"instances": [float(x)]}))
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise harness.HarnessError(f"status {answer.status}: {body[:200]!r}")
        (_, largest, rows), = json.loads(body)["predictions"]
        found[x] = int(largest), int(rows)
    connection.close()
    return found


class Batches(harness.TestCase):
    def test_captured_batches_match_the_batches_in_the_answers(self):
        daemon = self.start(harness.Daemon)
        server = self.start(harness.NativeServer, ["batched"])
        address = harness.wait_target(daemon, server.pid)["address"]
        harness.read_files(daemon, server)
        ask(server.port, 1)
        start = time.time() + AHEAD_S
        with concurrent.futures.ThreadPoolExecutor() as pool:
            capture = pool.submit(harness.profile, address, duration_ms=WINDOW_S * 1000, start_timestamp_ns=int(start * 1e9))
            time.sleep(max(0, start + LATER_S - time.time()))
            clients = [pool.submit(ask, server.port, 1 + i * 1000) for i in range(CLIENTS)]
            answers = {x: told for client in clients for x, told in client.result().items()}
            ended = time.time()
            xspace = harness.response_xspace(capture.result())
        self.assertLess(ended, start + WINDOW_S, "the machine was too slow for this test")
        self.assertEqual(xspace.warnings, [])
        self.assertEqual(len(answers), CLIENTS * REQUESTS)
        members = {}
        for x, (largest, rows) in answers.items():
            members.setdefault(largest, []).append(x)
            self.assertLessEqual(len(members[largest]), rows)
        print(f"     {len(answers)} requests in {len(members)} batches")
        self.assertLess(len(members), len(answers) / 1.5)
        self.assertEqual([max(xs) for xs in members.values()], list(members))
        batches = xspace.events("ProcessBatch")
        self.assertEqual(len(batches), len(members))
        self.assertFalse([e for e in batches if "cut" in e.stats or "end" in e.stats])
        self.assertEqual(len(xspace.events("SessionRun")), len(answers))
        # The ops of a batch are there once, those of a request for each.
        ops = {name: len(times) for name, times in xspace.ops().items()}
        self.assertEqual([n for name, n in ops.items() if name.endswith(":BatchFunction")], [len(answers)])
        inner = [n for name, n in ops.items() if name.endswith(":Pack")]
        self.assertEqual(set(inner), {len(members)})


if __name__ == "__main__":
    harness.main()
