# SPDX-License-Identifier: Apache-2.0
"""What TensorBoard's pages show about a server's requests is what its clients measured: latency percentiles per model, steps, batches.
Captured by TensorBoard's own dialog and by tfprofctl. As root."""
import bisect
import math
import time

import harness
import test_delays

WINDOW_S = 4
LAYERED = ["--rows", 64, "--width", 64]  # some milliseconds, of which the client's own share is small
SHARE = 0.05
ATTEMPTS = 3
PERCENTS = (50, 75, 90)
MS = 1_000_000


def latency_ms(exchange):
    """Without what the client's own thread was late to receive its answer, which on a busy machine is much."""
    return (exchange["arrive_ns"] - exchange["send_ns"]) / MS


def average(curve, window_ns):
    """Of a counter over the window, at whose begin the curve has its first sample."""
    ends = [at for at, _ in curve[1:]] + [curve[0][0] + window_ns / 1000]
    return sum((end - at) * value for (at, value), end in zip(curve, ends)) * 1000 / window_ns


class Batches:
    """What the answers show about the batches in a window: how many, of how many tasks and rows. Those at the edges make ranges."""

    def __init__(self, log, start, end):
        members = {}
        for exchange in log:
            largest, padded = exchange["batch"]
            members.setdefault((largest, padded), []).append(exchange)
        touched = {key: list_ for key, list_ in members.items()
                   if any(e["receive_ns"] > start and e["send_ns"] < end for e in list_)}
        inside = {key: list_ for key, list_ in touched.items() if all(e["send_ns"] > start and e["receive_ns"] < end for e in list_)}
        self.least, self.most = len(inside), len(touched)
        self.tasks = sum(map(len, inside.values())) / len(inside)
        self.padded = sum(padded for _, padded in inside) / len(inside)


class Overview(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.daemon = cls.start_shared(harness.Daemon)

    def begin(self, attempt, with_board):
        self.logdir = self.directory / f"logdir-{attempt}"
        if with_board:
            self.board = self.start(harness.TensorBoard, self.logdir)
        self.server = self.start(test_delays.Server, self.directory, ["layered", "batched"])
        self.address = harness.wait_target(self.daemon, self.server.pid)["address"]
        harness.read_files(self.daemon, self.server)
        self.clients = {"layered": self.start(test_delays.Client, self.directory, self.server, "layered", *LAYERED, clients=2, rate=50),
                        "batched": self.start(test_delays.Client, self.directory, self.server, "batched", clients=8, rate=500,
                                              id_base=100001)}
        time.sleep(0.5)

    def compare(self, capture, with_board=False):
        """Captures and compares. Only times are tried again, where the machine was too busy with other things for both to measure the same."""
        def attempt(number):
            self.begin(number, with_board)
            try:
                checks = capture()
            finally:
                for process in (*self.clients.values(), self.server):
                    process.stop()
            for check in checks:
                check()
            for what, found, expected, share in self.times:
                if abs(found - expected) > share * expected:
                    raise harness.Disturbed(f"{what}: {found}, measured {expected}")
        harness.retry_times(ATTEMPTS, attempt)

    def finish(self):
        """The clients' logs, and of them what lay wholly inside of the window, by model; the batches in it."""
        time.sleep(0.5)
        logs = {model: client.finish() for model, client in self.clients.items()}
        for process in (*self.clients.values(), self.server):
            process.stop()
        self.times = []
        file, = harness.xspace_files(self.logdir)
        self.pages = harness.Pages(file)
        stats = harness.XSpace(file).plane_stats["Task Environment"]
        offset = time.time_ns() - time.monotonic_ns()
        start, end = stats["profile_start_time"] - offset, stats["profile_stop_time"] - offset
        inside = {model: [e for e in log if e["send_ns"] > start and e["receive_ns"] < end] for model, log in logs.items()}
        self.check_counters([e for log in logs.values() for e in log], start, end)
        return inside, Batches(logs["batched"], start, end)

    def assert_near(self, found, expected, what, share=SHARE):
        """Of counts."""
        print(f"     {what}: {found:.3f}, measured {expected:.3f}, {(found / expected - 1) * 100:+.1f} %")
        self.assertAlmostEqual(found, expected, delta=share * expected, msg=what)

    def note_time(self, found, expected, what, share=SHARE):
        """Of times, which are compared when everything else has been."""
        print(f"     {what}: {found:.3f}, measured {expected:.3f}, {(found / expected - 1) * 100:+.1f} %")
        self.times.append((what, found, expected, share))

    def check_counters(self, log, start, end):
        counters = self.pages.counters()
        self.assertEqual(set(counters), {"requests in flight", "requests queued", "tasks in batch queues", "runnable threads",
                                         "threads waiting for a CPU"})
        in_flight = sum(max(0, min(e["arrive_ns"], end) - max(e["send_ns"], start)) for e in log) / (end - start)
        self.note_time(average(counters["requests in flight"], end - start), in_flight, "requests in flight, average")
        # A part of the requests in flight is queued; a part of the threads that are runnable waits.
        for part, whole in (("requests queued", "requests in flight"), ("threads waiting for a CPU", "runnable threads")):
            self.assertLess(0, average(counters[part], end - start), part)
            self.assertLess(average(counters[part], end - start), average(counters[whole], end - start), part)
        for name, curve in counters.items():
            self.assertEqual([value for _, value in curve if value < 0], [], name)

    def check_latencies(self, inside):
        models = {row["model_name"]: i for i, row in enumerate(harness.table_rows(self.pages.page("inference_profile")[0]))}
        self.assertEqual(set(models), set(inside))
        tables = self.pages.page("inference_profile")
        for model, i in models.items():
            expected = [latency_ms(e) for e in inside[model]]
            table = tables[1 + 2 * i]
            self.note_time(float(table["p"]["averageLatencyMs"]), sum(expected) / len(expected), f"{model}, average")
            self.assert_near(float(table["p"]["throughput"]), len(expected) / WINDOW_S, f"{model}, requests per second")
            # The page shows samples around percentiles, each with its own.
            found = [(float(row["percentile"]), row["latency_ms"]) for row in harness.table_rows(table) if row["percentile"][0].isdigit()]
            for percent in PERCENTS:
                at = bisect.bisect_left(found, (percent, 0))
                self.assertLess(found[at][0], percent + 1)
                self.note_time(found[at][1], test_delays.nearest_rank(expected, percent), f"{model}, {percent} %")
        table = next(t for t in self.pages.page("overview_page") if t["cols"] and t["cols"][0]["id"] == "percentile")
        found = {row["percentile"]: row["totalTimeMs"] for row in harness.table_rows(table)}
        expected = [latency_ms(e) for log in inside.values() for e in log]
        self.note_time(found["Avg"], sum(expected) / len(expected), "overview, average")
        for percent in PERCENTS:
            self.note_time(found[f"{percent:.1f}%"], test_delays.nearest_rank(expected, percent), f"overview, {percent} %")

    def check_steps(self, inside, batches):
        table = next(t for t in self.pages.page("overview_page") if t["cols"] and t["cols"][0]["id"] == "stepnum")
        steps = [row["stepnum"] for row in harness.table_rows(table)]
        n_batches = sum(step.startswith("ProcessBatch ") for step in steps)
        for model, log in inside.items():
            found = sum(f"/v1/models/{model}" in step for step in steps)
            # The plugin leaves out the first and the last step; some lie within the window for the server and not for the client.
            self.assertAlmostEqual(found, len(log), delta=12, msg=model)
        self.assertGreaterEqual(n_batches, batches.least - 2)
        self.assertLessEqual(n_batches, batches.most)
        print(f"     {len(steps)} steps, {n_batches} of them batches; {batches.least} to {batches.most} by the answers")

    def check_batching_table(self, batches):
        tables = self.pages.page("inference_profile")
        i = [row["model_name"] for row in harness.table_rows(tables[0])].index("batched")
        table = tables[2 + 2 * i]
        average = next(row for row in harness.table_rows(table) if row["percentile"] == "Aggregated")
        # The page has whole numbers for rows.
        self.assertEqual(average["batch_size_after_padding"], math.floor(batches.padded))
        self.assert_near(average["batching_efficiency"], batches.tasks / batches.padded, "efficiency of batches", 0.02)
        for row in harness.table_rows(table):
            if row["percentile"][0].isdigit():
                self.assertIn(row["batch_size_after_padding"], (1, 2, 4, 8, 16))
                self.assertLess(2 * row["padding_amount"], row["batch_size_after_padding"])
        self.assert_near(float(table["p"]["throughput"]), (batches.least + batches.most) / 2 / WINDOW_S, "batches per second")

    def test_dialogs_capture_agrees_with_the_clients_measurements(self):
        self.compare(self.capture_by_dialog, with_board=True)

    @harness.only_long
    def test_tfprofctls_capture_agrees_with_the_clients_measurements(self):
        self.compare(self.capture_by_tfprofctl)

    def checks(self, inside, batches):
        return [lambda: self.check_latencies(inside), lambda: self.check_steps(inside, batches), lambda: self.check_batching_table(batches)]

    def capture_by_dialog(self):
        status, message = self.board.capture(self.address, WINDOW_S * 1000)
        self.board.stop()
        self.assertEqual((status, message), (200, "Capture profile successfully. Please refresh."))
        return self.checks(*self.finish())

    def capture_by_tfprofctl(self):
        command = harness.ctl_capture(self.daemon, [self.server.pid], self.logdir, duration=f"{WINDOW_S}s")
        self.assertEqual(command.status, 0, command.stderr)
        inside, batches = self.finish()
        return [lambda: self.check_told(command.json["requests"], inside, batches), *self.checks(inside, batches)]

    def check_told(self, told, inside, batches):
        self.assertEqual({model["name"] for model in told["models"]}, set(inside))
        for model in told["models"]:
            expected = [latency_ms(e) for e in inside[model["name"]]]
            self.assertAlmostEqual(model["count"], len(expected), delta=12)
            self.note_time(model["p50_ns"] / MS, test_delays.nearest_rank(expected, 50), f"{model['name']}, 50 %, told")
        found = told["batches"]
        self.assertGreaterEqual(found["count"], batches.least)
        self.assertLessEqual(found["count"], batches.most)
        self.assert_near(found["tasks"] / found["count"], batches.tasks, "tasks of a batch, told", 0.02)
        self.assert_near(found["rows"] / found["sized"], batches.tasks, "rows of a batch, told", 0.02)
        self.assert_near(found["padded_rows"] / found["sized"], batches.padded, "the same with padding, told", 0.02)


if __name__ == "__main__":
    harness.main()
