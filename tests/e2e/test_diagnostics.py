# SPDX-License-Identifier: Apache-2.0
"""The sentences of a capture are on TensorBoard's Overview, and are true: advice, truncated requests, losses. As root."""
import json
import re

import harness
import test_delays

OK = 0
PERCENT_MIN = 20
ATTEMPTS = 4
# Fewer give no advice.
REQUESTS_MIN = 20


class Advice(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.daemon = cls.start_shared(harness.Daemon)

    def capture(self, prefix, model, *load, **how):
        """Of a server under load: the JSON of the capture, its file's requests, and the rows of Overview's diagnostics."""
        server = self.start(harness.NativeServer, [model], prefix=prefix)
        harness.wait_target(self.daemon, server.pid)
        client = self.start(test_delays.Client, self.directory, server, model, *load, **how)
        logdir = self.directory / f"logdir-{server.pid}"
        command = harness.ctl_capture(self.daemon, [server.pid], logdir, "--level", "3", "--requests", self.directory / "requests")
        self.assertEqual(command.status, OK, command.stderr)
        with open(self.directory / "requests", encoding="utf-8") as lines:
            requests = [json.loads(line) for line in lines]
        for process in (client, server):
            process.stop()
        file, = harness.xspace_files(logdir)
        return command.json, requests, harness.diagnostics(harness.Pages(file).page("overview_page"))

    def percent(self, found, *phases):
        requests = found["requests"]
        return int(100 * sum(requests["phases"][phase]["sum_ns"] for phase in phases) / requests["latency"]["sum_ns"])

    def check_rows(self, found, rows):
        """Each sentence is a row, and nothing else is; returns the notes."""
        self.assertEqual({severity for severity, _ in rows} - {"WARNING"}, set())
        notes = [text for _, text in rows if text.startswith("Note: ")]
        self.assertEqual(sorted(text for _, text in rows), sorted([f"Advice: {text}" for text in found["advice"]] + found["warnings"] + notes))
        return notes

    def test_waits_for_a_thread_and_for_a_batch_and_truncated_requests_are_reported(self):
        # More of them than threads that serve, unless the machine lets the clients wait.
        for _ in range(ATTEMPTS):
            found, requests, rows = self.capture((), "batched_slow", clients=8, rate=2000)
            if self.percent(found, "queue") > 2 * PERCENT_MIN:
                break
        note, = self.check_rows(found, rows)
        told = {}
        for text in found["advice"]:
            m = re.match(r"(\d+) % of the requests' time (.*)", text)
            told[m[2].split(":")[0]] = int(m[1])
        m = re.search(r"they wait in a batch queue, for batches of ([\d.]+) tasks on average", "\n".join(told))
        self.assertTrue(m, told)
        self.assertEqual(told[m[0]], self.percent(found, "batch"))
        # Some of the waits for a thread are for a CPU.
        self.assertLessEqual(told.get("no thread has taken them up", 0), self.percent(found, "queue"))
        self.assertGreater(told.get("no thread has taken them up", 0), self.percent(found, "queue") / 2)
        self.assertFalse([text for text in told if "blocked" in text], told)
        batches = found["requests"]["batches"]
        self.assertAlmostEqual(float(m[1]), batches["tasks"] / batches["count"], delta=0.1)
        start, end = (sum(r[key] for r in requests) for key in ("cut_start", "cut_end"))
        self.assertGreater(start + end, 0)
        self.assertTrue(note.startswith(f"Note: {found['requests']['cut']} of {len(requests)} requests were captured in part: the beginning of {start} "
                                        f"of them and the end of {end} are missing."), note)

    def test_waits_for_a_cpu_are_reported_with_the_numbers_of_threads_and_cpus(self):
        self.start(harness.Process, "hog", [harness.BUILD / "servers/hog", 0])
        found, _, rows = self.capture(["taskset", "-c", "0"], "layered", "--rows", 64, "--width", 64, clients=4, rate=400)
        self.check_rows(found, rows)
        # Threads that serve wait for one, too, and then take requests up late.
        m = re.search(r"(\d+) % of the requests' time they wait for a CPU: on average ([\d.]+) threads wanted one, and they ran on (\d+)\.",
                      "\n".join(found["advice"]))
        self.assertTrue(m, found["advice"])
        # They can wait for one in every phase.
        self.assertGreaterEqual(int(m[1]), self.percent(found, "execute_runnable"))
        self.assertGreater(int(m[1]), PERCENT_MIN)
        self.assertGreater(float(m[2]), 1)
        self.assertEqual(int(m[3]), 1)

    def test_a_server_without_waits_gets_no_advice(self):
        found, _, rows = self.capture((), "layered", "--rows", 256, "--width", 64, clients=1, rate=20)
        self.check_rows(found, rows)
        self.assertGreater(found["requests"]["whole"], REQUESTS_MIN)
        self.assertEqual([text for text in found["advice"] if "wait for a CPU" not in text], [])


if __name__ == "__main__":
    harness.main()
