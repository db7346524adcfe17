# SPDX-License-Identifier: Apache-2.0
"""Known delays are found where they are, and requests that the window truncates are marked as such: native servers with one
injected delay each, and what `tfprofctl capture` reports about their requests. As root."""
import bisect
import itertools
import json
import math
import os
import pathlib
import re
import signal
import time

import harness

DELAY_MS = 20
BATCH_TIMEOUT_MS = 10  # of batched_slow
CUT_DELAY_MS = 500
MS = 1_000_000
SLOWEST = 3
# Of a CPU that a hog and a server share, what other programs may take of it.
OTHERS_MAX = 0.03
ATTEMPTS = 6
# Whatever else runs on the machine is no part of what is tested.
NICE = -15
FIRST = ["nice", "-n", str(NICE)]


def prefer(process, nice=NICE):
    """The kernel may group processes by session, in which case a group's own niceness counts."""
    group = pathlib.Path(f"/proc/{process.pid}/autogroup")
    if group.exists():
        group.write_text(f"{nice}\n", encoding="utf-8")


class Server(harness.Server):
    """The server in C, with options of a delay; the truth is there once it has been stopped."""

    def __init__(self, directory, models, *options):
        self.truth_path = directory / "truth"
        argv = [harness.BUILD / "servers/native_server", "--port", 0, "--truth", self.truth_path, *options,
                *(harness.MODELS / m for m in models)]
        super().__init__("native_server", argv, FIRST, False, False)
        prefer(self)

    def threads(self, name):
        """The ids of its threads of that name."""
        found = set()
        for tid in os.listdir(f"/proc/{self.pid}/task"):
            with open(f"/proc/{self.pid}/task/{tid}/comm", encoding="utf-8") as comm:
                if comm.read().strip() == name:
                    found.add(int(tid))
        return found

    def finish(self):
        """Who served which request, by its id."""
        self.stop()
        with open(self.truth_path, encoding="utf-8") as truth:
            return {record["id"]: record for record in map(json.loads, truth)}


class Client(harness.Process):
    """Requests of load_client, from now on, after some to warm up, until finish(); ids begin at id_base."""

    numbers = itertools.count()

    def __init__(self, directory, server, model, *options, clients=2, rate=200, id_base=1):
        self.log_path = directory / f"log-{next(Client.numbers)}"
        argv = [harness.BUILD / "servers/load_client", "--rest", f"127.0.0.1:{server.port}", "--model", model,
                "--clients", clients, "--rate", rate, "--duration", 600, "--warm", 5, "--id-base", id_base,
                "--log", self.log_path, "--wait-start", *options]
        super().__init__("load_client", argv)
        # What it measures shall not be its own delays.
        os.sched_setscheduler(self.pid, os.SCHED_FIFO, os.sched_param(1))
        # It begins at once then: there is no input to wait for.
        self.wait_ready(lambda: self.line("connected"))

    def finish(self):
        """What became of the requests, by the connection's port and in order of time."""
        self.send(signal.SIGTERM)
        if self.wait(harness.ANSWER_TIMEOUT_S):
            self.fail(f"requests failed: {self.stdout()}")
        with open(self.log_path, encoding="utf-8") as log:
            return sorted(map(json.loads, log), key=lambda e: (e["local_port"], e["send_ns"]))


class Log:
    """The client's requests, to be found by what the capture reports about one."""

    def __init__(self, exchanges):
        self.exchanges = exchanges
        self.keys = [(e["local_port"], e["send_ns"]) for e in exchanges]

    def find(self, request):
        """What was sent last on the connection when the request began; None: nothing that is in the log."""
        i = bisect.bisect_right(self.keys, (request["peer_port"], request["start_ns"])) - 1
        found = self.exchanges[i] if i >= 0 else None
        return found if found and found["local_port"] == request["peer_port"] else None


def latency(exchange):
    return exchange["receive_ns"] - exchange["send_ns"]


class TestCase(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon = self.start(harness.Daemon)

    def serve(self, models, *options):
        server = self.start(Server, self.directory, models, *options)
        harness.wait_target(self.daemon, server.pid)
        return server

    def capture(self, server, *arguments, **how):
        command = harness.ctl_capture(self.daemon, [server.pid], self.directory / "logdir", *arguments, **how)
        self.assertEqual(command.status, 0, command.stderr)
        return command.json


def on_cpu_ns(pid):
    """CPU time of all threads of a process."""
    total = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            total += int(pathlib.Path(f"/proc/{pid}/task/{tid}/schedstat").read_text().split()[0])
        except OSError:
            pass  # it has ended
    return total


class Delays(TestCase):
    """Each test injects one delay, which must be reported for all of the slowest requests, as JSON and in words. Where the clients, the server or
    the kernel's accounting show that the machine delayed other requests more, or the same ones, it is tried again."""

    def observe(self, server):
        """Before and after a capture."""

    def capture_slowest(self, server, client):
        """The slowest requests of a capture: [(request, the client's view, the server's view, the text)]."""
        recording = self.directory / "recording.tfp"
        recording.unlink(missing_ok=True)
        self.observe(server)
        file = self.directory / "requests.ndjson"
        result = self.capture(server, "--slowest", SLOWEST, "--record", recording, "--requests", file, duration="2s")
        self.observe(server)
        log, truth = Log(client.finish()), server.finish()
        command = harness.ctl(None, "replay", recording, "-o", self.directory / "replayed", "--slowest", SLOWEST)
        self.assertEqual(command.status, 0, command.stderr)
        verdicts = re.findall(r"^\d\. .*, request \d+: POST .*\n   (.*)$", command.stdout, re.MULTILINE)
        self.assertEqual(len(verdicts), SLOWEST, command.stdout)
        self.assertEqual(result["dropped"], 0)
        # Of all that were seen whole; by the client, another one may have waited longer for its answer.
        seen = [json.loads(line) for line in file.read_text().splitlines()]
        latencies = sorted((r["latency_ns"] for r in seen if not (r["cut_start"] or r["cut_end"])), reverse=True)
        self.assertEqual([request["latency_ns"] for request in result["slowest"]], latencies[:SLOWEST])
        found = []
        for request, verdict in zip(result["slowest"], verdicts):
            exchange = log.find(request)
            record = truth[exchange["id"]]
            self.assertEqual(request["threads"]["run"], {"tid": record["thread"], "name": "http_worker"})
            self.assertEqual(sum(request["phases"].values()), request["latency_ns"])
            # The client may have the answer while the server's thread, still in its system call, waits for a CPU.
            self.assertLess(request["latency_ns"], max(exchange["receive_ns"], record["done_ns"]) - exchange["send_ns"])
            found.append((request, exchange, record, verdict))
            print(f"     {request['latency_ns'] / MS:.1f} ms (client {latency(exchange) / MS:.1f} ms): {verdict}")
        return found

    def slowest(self, begin, expected):
        """The same of the first capture for whose requests expected() is true, with server and client by begin()."""
        def attempt(_):
            found = self.capture_slowest(*begin())
            if not all(expected(*one) for one in found):
                raise harness.Disturbed("something else delayed the slowest requests")
            return found
        return harness.retry_times(ATTEMPTS, attempt)

    def check_cause(self, request, phase, activity, name, thread, at_least_ns):
        cause = request["cause"]
        self.assertEqual((cause["phase"], cause["activity"], cause["name"]), (phase, activity, name))
        self.assertEqual(cause["thread"], thread)
        self.assertGreaterEqual(cause["cause_ns"], at_least_ns)
        return cause["by"]

    def worker(self, record):
        return {"tid": record["thread"], "name": "http_worker"}

    def was_delayed(self, _, exchange, record, __):
        """By the injected delay before its run, and by nothing that took as long."""
        before_run = record["run_start_ns"] - record["read_ns"]
        return DELAY_MS * MS <= before_run < 1.8 * DELAY_MS * MS and before_run > 0.6 * latency(exchange)

    def test_a_lock_that_another_thread_holds_is_blocked_in_futex_until_that_thread_wakes_it(self):
        holders = []

        def begin():
            server = self.serve(["half_plus_two"], "--delay-lock", DELAY_MS)
            holders.extend(server.threads("lock_holder"))
            return server, self.start(Client, self.directory, server, "half_plus_two", clients=1, rate=50)

        for request, _, record, verdict in self.slowest(begin, self.was_delayed):
            by = self.check_cause(request, "decode", "blocked", "futex", self.worker(record), 0.6 * DELAY_MS * MS)
            self.assertEqual(by, {"tid": holders[-1], "name": "lock_holder"})
            self.assertRegex(verdict, rf"^\d+ % decode(:|, \d+ % of it) blocked in futex, woken by lock_holder/{holders[-1]}, "
                                      rf"thread http_worker/{record['thread']}$")

    def test_a_hog_on_the_same_cpu_is_named_as_the_cause_of_the_wait(self):
        cpu = max(os.sched_getaffinity(0))
        hog = self.start(harness.Process, "hog", [*FIRST, harness.BUILD / "servers/hog", cpu])
        prefer(hog)
        observed = []
        self.observe = lambda server: observed.append((time.monotonic_ns(), on_cpu_ns(hog.pid), on_cpu_ns(server.pid)))

        def begin():
            server = self.serve(["layered"], "--pin", cpu)
            # The hog gets more of the CPU than the server, as both get more of it than others.
            prefer(server, NICE // 2)
            return server, self.start(Client, self.directory, server, "layered", "--width", 64, clients=1, rate=10)

        def expected(*_):
            # What the CPU did, by the kernel's accounting: no third program had more than a little of it.
            (begun, *before), (ended, *after) = observed[-2:]
            hogs, servers = (b - a for a, b in zip(before, after))
            others = 1 - (hogs + servers) / (ended - begun)
            print(f"     the CPU was the hog's for {hogs / (ended - begun) * 100:.1f} % of the time, others' for {others * 100:.1f} %")
            return others < OTHERS_MAX

        for request, _, _, verdict in self.slowest(begin, expected):
            cause = request["cause"]
            self.assertIn((cause["phase"], cause["activity"]), (("execute_runnable", "runnable"), ("queue", "runnable")))
            self.assertEqual(cause["by"], {"tid": hog.pid, "name": "hog"})
            self.assertIn(cause["thread"]["name"], ("http_worker", "tf_Compute"))
            self.assertRegex(verdict, rf"^\d+ % (execute|queue wait)(:|, \d+ % of it) waiting for a CPU while hog/{hog.pid} ran, "
                                      rf"thread {cause['thread']['name']}/{cause['thread']['tid']}")
            # Of all that it waited for, whatever the phase and the thread.
            waited = sum(s["end_ns"] - s["start_ns"] for s in request["critical_path"] if s.get("by") == cause["by"])
            self.assertGreater(waited, 0.5 * request["latency_ns"])

    def test_a_sleep_in_decode_is_blocked_in_clock_nanosleep(self):
        def begin():
            server = self.serve(["half_plus_two"], "--delay-decode", DELAY_MS)
            return server, self.start(Client, self.directory, server, "half_plus_two", rate=50)

        for request, _, record, verdict in self.slowest(begin, self.was_delayed):
            by = self.check_cause(request, "decode", "blocked", "clock_nanosleep", self.worker(record), DELAY_MS * MS)
            self.assertIsNone(by)
            self.assertRegex(verdict, r"^\d+ % decode(:|, \d+ % of it) blocked in clock_nanosleep, "
                                      rf"thread http_worker/{record['thread']}$")

    def test_a_client_that_reads_its_answer_slowly_is_a_write_that_waits_for_the_socket(self):
        pause_ms = 3 * DELAY_MS

        def begin():
            server = self.serve(["half_plus_two"], "--answer-pad", 1 << 20)
            return server, self.start(Client, self.directory, server, "half_plus_two", "--slow-read", pause_ms, rate=50)

        def expected(_, exchange, *__):
            return exchange.get("slow") and latency(exchange) < 1.8 * pause_ms * MS

        for request, _, record, verdict in self.slowest(begin, expected):
            self.check_cause(request, "write", "blocked", "poll", self.worker(record), 0.6 * pause_ms * MS)
            self.assertRegex(verdict, r"^\d+ % write(:|, \d+ % of it) blocked in poll(, woken by .*)?, "
                                      rf"thread http_worker/{record['thread']}$")

    def test_a_batch_that_waits_for_its_timeout_is_batch_wait(self):
        batch_threads = set()

        def begin():
            server = self.serve(["batched_slow"])
            client = self.start(Client, self.directory, server, "batched_slow", clients=1, rate=10)
            # They begin with the first batch.
            batch_threads.update(harness.wait_until(lambda: server.threads("batch_threads_"), 10, "batch threads"))
            return server, client

        def expected(_, exchange, *__):
            return latency(exchange) < 1.9 * BATCH_TIMEOUT_MS * MS

        for request, exchange, _, verdict in self.slowest(begin, expected):
            thread = request["cause"]["thread"]
            self.assertIn(thread["tid"], batch_threads)
            self.assertIsNone(self.check_cause(request, "batch", "waiting", None, thread, BATCH_TIMEOUT_MS * MS))
            self.assertRegex(verdict, rf"^\d+ % batch wait: in a batch queue, for a batch of 1 task, thread batch_threads_/{thread['tid']}$")
            (batch,) = request["batches"]
            self.assertEqual(batch["tasks"], 1)
            self.assertEqual(exchange["batch"], [exchange["id"], 1])


def window(result):
    """(start, end) of the window of a capture, as CLOCK_MONOTONIC of its requests."""
    stats = harness.XSpace(result["file"]).plane_stats["Task Environment"]
    with open(result["requests_file"], encoding="utf-8") as lines:
        request = json.loads(next(lines))
    offset = request["start_unix_ns"] - request["start_ns"]
    return stats["profile_start_time"] - offset, stats["profile_stop_time"] - offset


def nearest_rank(values, percent):
    return sorted(values)[max(math.ceil(len(values) * percent / 100) - 1, 0)] if values else 0


class CutRequests(TestCase):
    """Some requests are under way whenever a window opens or closes."""

    def look(self, server, client):
        """The truncated requests of a capture: [(request, the client's view, the server's view)], and the window."""
        file = self.directory / "requests.ndjson"
        time.sleep(1)
        result = self.capture(server, "--requests", file, duration="2s")
        time.sleep(1)
        log, truth = Log(client.finish()), server.finish()
        start, end = window(result)
        with open(file, encoding="utf-8") as lines:
            requests = [json.loads(line) for line in lines]
        summary = result["requests"]
        whole = [r for r in requests if not (r["cut_start"] or r["cut_end"])]
        cut = [r for r in requests if r["cut_start"] or r["cut_end"]]
        self.assertEqual([(r["lost"], r["reset"]) for r in requests if r["lost"] or r["reset"]], [])
        self.assertEqual((summary["whole"], summary["cut"]), (len(whole), len(cut)))
        latencies = [r["latency_ns"] for r in whole]
        for key, percent in (("p50_ns", 50), ("p90_ns", 90), ("p99_ns", 99), ("max_ns", 100)):
            self.assertEqual(summary["latency"][key], nearest_rank(latencies, percent))
        # All that the client had inside of the window is whole, and nothing else is.
        inside = {e["id"] for e in log.exchanges if e["send_ns"] > start and e["receive_ns"] < end}
        crossing = {e["id"] for e in log.exchanges if e["send_ns"] <= start < e["receive_ns"] or e["send_ns"] < end <= e["receive_ns"]}
        ids = {log.find(r)["id"] for r in whole}
        self.assertEqual(len(ids), len(whole))
        self.assertEqual(inside - ids, set())
        self.assertLessEqual(ids, inside | crossing)
        for request in requests:
            self.assertGreaterEqual(request["start_ns"], start)
            self.assertLessEqual(request["end_ns"], end)
            self.assertEqual(sum(request["phases"].values()), request["latency_ns"])
        found = []
        for request in cut:
            exchange = log.find(request)
            self.assertIn(exchange["id"], crossing)
            record = truth[exchange["id"]]
            self.assertLessEqual(request["latency_ns"], latency(exchange))
            # What the server surely did for it within the window is in the bound.
            self.assertGreaterEqual(request["latency_ns"],
                                    min(record["run_end_ns"], end) - max(record["read_ns"], start))
            found.append((request, exchange, record))
        counts = [sum(r["cut_start"] for r in cut), sum(r["cut_end"] for r in cut)]
        print(f"     {len(whole)} whole, {counts[0]} cut at the start, {counts[1]} at the end")
        return found, start, end

    def check_both_ends(self, found, start, end, since, until):
        """Those that were certainly in progress at an edge are truncated there and begin, or end, with the window."""
        began = [request for request, _, record in found if record[since] < start]
        ended = [request for request, _, record in found if record[until] > end]
        self.assertGreater(len(began), 0)
        self.assertGreater(len(ended), 0)
        for request in began:
            self.assertEqual((request["cut_start"], request["start_ns"]), (True, start))
        for request in ended:
            self.assertEqual((request["cut_end"], request["end_ns"]), (True, end))

    def test_requests_in_decode_at_the_edges_are_truncated_there(self):
        server = self.serve(["half_plus_two"], "--delay-decode", CUT_DELAY_MS, "--workers", 16)
        client = self.start(Client, self.directory, server, "half_plus_two", clients=16, rate=100)
        found, start, end = self.look(server, client)
        self.check_both_ends(found, start, end, "read_ns", "run_end_ns")

    def test_requests_in_a_batch_queue_at_the_edges_are_truncated_there(self):
        server = self.serve(["batched_slow"])
        client = self.start(Client, self.directory, server, "batched_slow", clients=4, rate=0)
        found, start, end = self.look(server, client)
        self.check_both_ends(found, start, end, "run_start_ns", "run_end_ns")

    def test_truncated_requests_whose_answers_are_being_read_are_in_no_percentile(self):
        server = self.serve(["half_plus_two"], "--answer-pad", 1 << 20, "--workers", 8)
        client = self.start(Client, self.directory, server, "half_plus_two", "--slow-read", 2 * CUT_DELAY_MS, clients=8, rate=100)
        found, _, end = self.look(server, client)
        ended = [(request, exchange) for request, exchange, record in found if record["done_ns"] > end and exchange.get("slow")]
        for request, _ in ended:
            self.assertEqual((request["cut_end"], request["end_ns"]), (True, end))
        # One that began shortly before the end was at something else for as long.
        shares = [request["phases"]["write"] / request["latency_ns"] for request, _ in ended if request["latency_ns"] > CUT_DELAY_MS * MS / 5]
        self.assertGreater(min(shares), 0.5)


if __name__ == "__main__":
    harness.main()
