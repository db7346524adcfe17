# SPDX-License-Identifier: Apache-2.0
"""Threads whose cgroup has used up its quota of CPU time are shown as throttled, with that cgroup: a native server with and without a quota, and
what the kernel counts of it. As root."""
import json
import os
import pathlib
import re
import threading
import time

import harness
import test_delays

MS = 1_000_000
QUOTA_MS, PERIOD_MS = 20, 100
# A name that a person reads as it is, with what a terminal would take as a command.
NAME = "tfprof-\x1b[2Jé"
SLOWEST = 3
CLIENTS = 4
# Of the kernel's account of the window, beside the period at each of its edges, which that contains as a whole or not at all.
MARGIN = 0.06


def controller():
    """Where the cgroups with quotas are, and whether they are of version 2."""
    mounts = [line.split() for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
    for _, where, kind, options, *_ in mounts:
        if kind == "cgroup" and "cpu" in options.split(","):
            return pathlib.Path(where), False
    for _, where, kind, *_ in mounts:
        if kind == "cgroup2" and "cpu" in (pathlib.Path(where) / "cgroup.controllers").read_text().split():
            return pathlib.Path(where), True
    raise harness.HarnessError("this host has no cgroups with a quota of CPU time")


class Cgroup:
    """A cgroup and another one in it, which has the processes; stop() takes both away, once they have ended."""

    def __init__(self, name=f"{NAME}-{os.getpid()}"):
        self.root, self.unified = controller()
        self.outer = self.root / name
        self.inner = self.outer / "inner"
        if self.unified:
            (self.root / "cgroup.subtree_control").write_text("+cpu")
        self.outer.mkdir()
        if self.unified:
            (self.outer / "cgroup.subtree_control").write_text("+cpu")
        self.inner.mkdir()
        # Other programs on the machine are not under test.
        weight, most = ("cpu.weight", 10000) if self.unified else ("cpu.shares", 262144)
        (self.outer / weight).write_text(str(most))
        self.path = f"/{self.outer.name}"

    def limit(self, quota_ms):
        """Of the outer one; None: no limit."""
        if self.unified:
            (self.outer / "cpu.max").write_text(f"{quota_ms * 1000 if quota_ms else 'max'} {PERIOD_MS * 1000}")
        else:
            (self.outer / "cpu.cfs_period_us").write_text(f"{PERIOD_MS * 1000}")
            (self.outer / "cpu.cfs_quota_us").write_text(f"{quota_ms * 1000 if quota_ms else -1}")

    def add(self, process):
        (self.inner / "cgroup.procs").write_text(str(process.pid))

    def throttled(self):
        """The kernel's account: how often, and for how many ns of all CPUs."""
        stat = dict(line.split() for line in (self.outer / "cpu.stat").read_text().splitlines())
        return int(stat["nr_throttled"]), int(stat["throttled_usec"]) * 1000 if self.unified else int(stat["throttled_time"])

    def stop(self):
        for group in (self.inner, self.outer):
            harness.wait_until(lambda group=group: not (group / "cgroup.procs").read_text(), 20, "the cgroup is empty")
            group.rmdir()


class Account:
    """What the kernel counts of a cgroup, read all the time until stop()."""

    def __init__(self, group):
        self.group, self.read, self.ended = group, [], threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.ended.wait(0.01):
            self.read.append((time.monotonic_ns(), *self.group.throttled()))

    def stop(self):
        self.ended.set()
        self.thread.join()

    def between(self, begin_ns, end_ns):
        """How often it was throttled between two times, and for how many ns."""
        before, after = ([r for r in self.read if r[0] <= at][-1] for at in (begin_ns, end_ns))
        return after[1] - before[1], after[2] - before[2]


def union(events, begin_ns):
    """The times that are within at least one of the events, in order: [(from, to)], of a trace that begins at that time."""
    times = []
    for start, end in sorted((begin_ns + e.start_ps // 1000, begin_ns + (e.start_ps + e.duration_ps) // 1000) for e in events):
        if times and start <= times[-1][1]:
            times[-1] = (times[-1][0], max(end, times[-1][1]))
        else:
            times.append((start, end))
    return times


def overlap_ns(times, begin_ns, end_ns):
    return sum(max(0, min(end, end_ns) - max(start, begin_ns)) for start, end in times)


class Throttled(test_delays.TestCase):
    def capture_limited(self, quota_ms):
        """Of a server on one CPU with more work than the quota allows: the JSON, its text, its requests, the trace, the log, the kernel's account."""
        group = self.start(Cgroup)
        server = self.start(test_delays.Server, self.directory, ["layered"], "--pin", max(os.sched_getaffinity(0)))
        group.add(server)
        harness.wait_target(self.daemon, server.pid)
        client = self.start(test_delays.Client, self.directory, server, "layered", "--rows", 64, "--width", 64, clients=CLIENTS, rate=0)
        group.limit(quota_ms)
        time.sleep(3 * PERIOD_MS / 1000)
        account = self.start(Account, group)
        file, recording = self.directory / "requests.ndjson", self.directory / "recording.tfp"
        result = self.capture(server, "--slowest", SLOWEST, "--requests", file, "--record", recording, duration="3s")
        account.stop()
        group.limit(None)
        log = test_delays.Log(client.finish())
        server.stop()
        command = harness.ctl(None, "replay", recording, "-o", self.directory / "replayed", "--slowest", SLOWEST)
        self.assertEqual(command.status, 0, command.stderr)
        self.assertEqual(result["dropped"], 0)
        with open(file, encoding="utf-8") as lines:
            requests = [r for r in map(json.loads, lines) if not (r["cut_start"] or r["cut_end"])]
        self.assertGreater(len(requests), 50)
        for r in requests:
            self.assertEqual(sum(r["phases"].values()), r["latency_ns"])
            exchange = log.find(r)
            self.assertLessEqual(exchange["send_ns"], r["start_ns"])
            self.assertLessEqual(r["write_start_ns"], exchange["receive_ns"])
        return group, result, command.stdout, requests, harness.XSpace(result["file"]), account

    def thread_events(self, space):
        return [e for line, events in space.lines().items() if re.search(r"/\d+$", line) for e in events if e.name == "throttled"]

    def throttled_ns(self, request):
        return sum(p["end_ns"] - p["start_ns"] for p in request["critical_path"] if p.get("activity") == "throttled")

    def test_a_used_up_quota_is_shown_and_named_wherever_requests_wait_for_it(self):
        group, result, text, requests, space, account = self.capture_limited(QUOTA_MS)
        # What the threads on the one CPU waited for is what the kernel counted for it.
        begin, end = test_delays.window(result)
        stops = union(self.thread_events(space), begin)
        seen, (times, spent) = overlap_ns(stops, begin, end), account.between(begin, end)
        print(f"     throttled in {len(stops)} stops for {seen / MS:.1f} ms, by the kernel in {times} for {spent / MS:.1f} ms of {(end - begin) / MS:.0f}")
        self.assertGreater(times, 10)
        self.assertAlmostEqual(seen, spent, delta=MARGIN * spent + PERIOD_MS * MS)
        self.assertGreater(spent, 0.5 * (end - begin))
        # While the CPU was kept from the server, every request of that time waited for it, and none at any other time.
        waited = [(self.throttled_ns(r), overlap_ns(stops, r["start_ns"], r["end_ns"])) for r in requests]
        print(f"     requests were throttled for {sum(w for w, _ in waited) / MS:.0f} ms, the server meanwhile for {sum(s for _, s in waited) / MS:.0f} ms")
        for own, servers in waited:
            self.assertLessEqual(own, servers + MS)
        self.assertGreater(sum(own for own, _ in waited), 0.9 * sum(servers for _, servers in waited))
        self.assertGreater(sum(own > PERIOD_MS * MS / 5 for own, _ in waited), 10)
        limits = [{"cgroup": group.path, "quota_ns": QUOTA_MS * MS, "period_ns": PERIOD_MS * MS}]
        for r in requests:
            self.assertEqual(r["quotas"], limits if self.throttled_ns(r) else [])
        # The same in its words.
        shown = group.path.replace("\x1b", "\\x1b")
        limit = rf"20 % of a CPU, {QUOTA_MS}\.0 ms per {PERIOD_MS} ms"
        verdicts = re.findall(r"^\d\. .*, request \d+: POST .*\n   (.*)$", text, re.MULTILINE)
        self.assertEqual(len(verdicts), SLOWEST, text)
        for r, verdict in zip(result["slowest"], verdicts):
            print(f"     {r['latency_ns'] / MS:.1f} ms: {verdict}")
            self.assertEqual((r["cause"]["activity"], r["cause"]["name"], r["cause"]["by"]), ("throttled", group.path, None))
            self.assertRegex(verdict, rf"throttled by the quota of cgroup {re.escape(shown)} \({limit}\), thread \w+/\d+")
        self.assertGreater(result["throttled_ns"], 0)
        self.assertGreater(result["requests"]["phases"]["execute_throttled"]["max_ns"], 0)
        self.assertRegex(text, r"(?m)^  threads .* % throttled, ")
        self.assertRegex(text, r"(?m)^  execute: throttled +\d")
        share = 100 * sum(map(self.throttled_ns, requests)) / sum(r["latency_ns"] for r in requests)
        m = re.match(rf"(\d+) % of the requests' time they are throttled: cgroup {re.escape(group.path)} has a quota of {limit}\. ", result["advice"][0])
        self.assertTrue(m, result["advice"])
        self.assertAlmostEqual(int(m[1]), share, delta=1)
        # And in the trace: on the threads and below the requests.
        stats = self.thread_events(space)[0].stats
        self.assertEqual(stats["cgroup"], group.path)
        self.assertRegex(stats["quota"], f"^{limit}$")
        self.assertTrue([e for line, events in space.lines().items() if line.startswith("requests ") for e in events if e.name == "throttled"])

    def test_a_snapshot_names_a_cgroup_that_was_throttled_long_before(self):
        daemon, group = self.start(harness.Daemon, "--recorder", "2", "--recorder-overhead", "100", "--recorder-last", "1s"), self.start(Cgroup)
        server = self.start(test_delays.Server, self.directory, ["layered"], "--pin", max(os.sched_getaffinity(0)))
        group.add(server)
        harness.wait_target(daemon, server.pid)
        self.start(test_delays.Client, self.directory, server, "layered", "--rows", 64, "--width", 64, clients=CLIENTS, rate=0)
        group.limit(QUOTA_MS)
        # The cgroup's name is recorded once, and has left the recorder then.
        time.sleep(4)
        command = harness.ctl(daemon, "snapshot", "--last", "500ms", "-o", self.directory / "snapshot", "--json")
        self.assertEqual(command.status, 0, command.stderr)
        group.limit(None)
        events = self.thread_events(harness.XSpace(command.json["file"]))
        self.assertGreater(len(events), 3)
        self.assertEqual({e.stats.get("cgroup") for e in events}, {group.path})

    def test_without_a_quota_nothing_is_throttled(self):
        _, result, text, requests, space, account = self.capture_limited(None)
        self.assertEqual(account.read[-1][1:], (0, 0))
        self.assertEqual(space.events("throttled"), [])
        self.assertEqual(result["throttled_ns"], 0)
        self.assertEqual(result["requests"]["phases"]["execute_throttled"]["max_ns"], 0)
        self.assertEqual([r for r in requests if self.throttled_ns(r) or r["quotas"]], [])
        self.assertNotIn("throttled", text)
        self.assertEqual([a for a in result["advice"] if "throttled" in a], [])


if __name__ == "__main__":
    harness.main()
