# SPDX-License-Identifier: Apache-2.0
"""What a capture must never do to its target, over and over: names that go stale, what a thousand of them leave behind, and what daemons do that are
killed at any moment. As root."""
import collections
import concurrent.futures
import glob
import json
import os
import pathlib
import random
import re
import signal
import time
import urllib.request

import harness
import test_lifecycle

# The first ones fill the allocator's arenas: more of them run at once than later, when memory is looked at after each so many.
FIRST, FIRST_AT_ONCE, EACH, AT_ONCE = 128, 8, 32, 4
CYCLES = FIRST + EACH * (40 if harness.LONG else 5)
# What a capture may leave in a process, by the median of what each so many left: allocators keep some of what they were given back.
KEPT_BYTES = 4096


def descriptors(pid):
    return len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))


def status_kb(pid, field):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)[1])


def mappings(pid):
    """A process's mappings of code: a probe that stays would leave a private page behind."""
    return [line.split()[:3] for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines() if "r-xp" in line]


class Reload(harness.TestCase):
    """Two models of the same ops under other names, loaded in turn: each takes the memory that the other one left."""

    NAME = re.compile(r"(?:.*/)?([ab])_(\d)/(\w+):(\w+)")

    def test_names_are_right_when_models_are_unloaded_and_their_memory_is_used_again(self):
        daemon = self.start(harness.Daemon)
        server = self.start(harness.NativeServer, ["twin_a", "twin_b"], self_load=1, reload=40, http=False)
        address = harness.wait_target(daemon, server.pid)["address"]
        xspace = harness.response_xspace(harness.profile(address, duration_ms=4000, level=3))
        runs = collections.Counter()
        counts = collections.Counter()
        for line in xspace.lines().values():
            # The runs of a model stand together; in each, all ops are those of one model.
            for event in line:
                if match := self.NAME.fullmatch(event.name):
                    twin, layer, op, kind = match.groups()
                    counts[twin, layer, op] += 1
                    runs[twin] += op == "matmul" and layer == "0"
                    self.assertEqual(kind.lower(), {"scale": "mul", "bias_add": "biasadd", "residual": "addv2"}.get(op, op),
                                     event.name)
        print(f"     runs of the twins: {dict(runs)}")
        # Both were loaded several times within the window.
        self.assertGreater(runs["a"], 80)
        self.assertGreater(runs["b"], 80)
        ops = {key[1:] for key in counts}
        self.assertGreaterEqual(len(ops), 4 * 5)
        # An op that had the name of the other twin's would be one too many there and be missing here.
        for twin, layer, op in counts:
            self.assertLessEqual(abs(counts[twin, layer, op] - runs[twin]), 1, (twin, layer, op))
        self.assertEqual([w for w in xspace.warnings if "name" in w], [])


class Kills(test_lifecycle.Lifecycle):
    """Processes of the daemon that are killed at random moments: before a capture's probes are attached, in its window, or when they are
    detached. What the supervisor replaces serves the same clients; without the supervisor nothing is left."""

    ROUNDS = 300 if harness.LONG else 8
    WINDOW_MS, LATEST_S = 300, 1.0
    # What is attached goes with who held it; the bar is 1 s for a machine that does nothing else.
    ENDED_S, GONE_S, READY_S = 5, 1, 2
    WHOM = (("broker",), ("front",), ("prover",), ("broker", "front"), ("client", "broker"), ("client", "front"), ("supervisor",),
            ("supervisor", "broker", "front"))
    OPTIONS = (), (), ("--recorder", 2, "--recorder-overhead", 100), ("--lifecycle",), ("--probe-links", "multi")

    def begin(self, options):
        """It begins with what the one before has left of its state."""
        daemon = harness.Daemon("--state-dir", self.directory / "state", *options)
        self.addCleanup(daemon.stop)
        harness.wait_target(daemon, self.server.pid)
        return daemon

    def captures(self, daemon, number, level=1):
        return self.start(harness.Process, "tfprofctl", [
            harness.OUT / "tfprofctl", "--daemon", f"unix:{daemon.socket}", "capture", "--pid", self.server.pid, "-d", f"{self.WINDOW_MS}ms",
            "--level", level, "-o", self.directory / f"logdir-{number}"])

    def check_end(self, daemon, before, what):
        harness.wait_until(lambda: not daemon.running() and not daemon.pids(), self.ENDED_S, f"{what}: all roles end")
        self.assertEqual(harness.leftovers(before, self.GONE_S), [], what)

    def check_replaced(self, daemon, pids, whom, held, what):
        """Returns how long it took until the target was listed again, which does not wait for what they held."""
        begun = time.monotonic()
        harness.wait_until(lambda: (listed := harness.ctl(daemon, "targets", "--json")).status == 0 and f'"pid":{self.server.pid},' in
                           listed.stdout.replace(" ", ""), self.ENDED_S, f"{what}: the target is known")
        took = time.monotonic() - begun
        harness.wait_until(lambda: not held & set(harness.bpf_objects()), max(self.GONE_S - took, 0), f"{what}: what they held is gone")
        daemon.wait_roles(replaced=[pids[name] for name in whom if name in pids])
        return took

    def test_daemons_killed_at_any_moment_of_a_capture_leave_nothing_and_fail_no_request(self):
        seed = int(os.environ.get("CHECK_SEED") or time.time())
        choose = random.Random(seed)
        before = harness.bpf_objects()
        self.server = self.start(harness.NativeServer, ["half_plus_two"])
        load = self.start(harness.Load, self.server, clients=2)
        ends, killed, ready_s, daemon = collections.Counter(), collections.Counter(), [], None
        for number in range(self.ROUNDS):
            options, whom, delay = choose.choice(self.OPTIONS), choose.choice(self.WHOM), choose.uniform(0, self.LATEST_S)
            what = f"CHECK_SEED={seed}, round {number}: {' and '.join(whom)} after {delay:.3f} s, {options}"
            if daemon and begun_with != options:
                self.assertEqual(daemon.stop(), 0, what)
                daemon = None
            daemon, begun_with = daemon or self.begin(options), options
            client = self.captures(daemon, number, choose.choice((1, 2, 3)))
            pids = {**daemon.wait_roles(), "client": client.pid}
            time.sleep(delay)
            held = {key for key, holders in harness.bpf_holders().items() if holders & set(pids.values())}
            for name in whom:
                os.kill(pids[name], signal.SIGKILL)
            killed[whom] += 1
            if "supervisor" in whom:
                self.check_end(daemon, before, what)
                daemon.stop()
                daemon = None
            else:
                ready_s.append(self.check_replaced(daemon, pids, whom, held, what))
            ends[client.wait(self.ENDED_S)] += 1
            # What the kernel leaves when it detaches for a process that is killed meanwhile, the next broker removes.
            daemon = daemon or self.begin(options)
            if "--recorder" not in options:
                harness.wait_until(lambda: not test_lifecycle.breakpoints(self.server.pid, test_lifecycle.LIBRARY.name), self.ENDED_S,
                                   f"{what}: no breakpoint is left")
            self.assertEqual(self.captures(daemon, f"{number}-again").wait(self.ENDED_S), 0, what)
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(harness.leftovers(before, self.GONE_S), [])
        result = load.finish()
        ready_s.sort()
        print(f"     CHECK_SEED={seed}: {dict(killed)}; tfprofctl ended with {dict(ends)}; {result['requests']} requests; a killed role served "
              f"again after {ready_s[len(ready_s) // 2]:.2f} s (median), {ready_s[-1]:.2f} s (longest)")
        self.assertEqual(result["errors"], 0, result)
        self.assertGreater(result["requests"], 100 * self.ROUNDS)
        self.assertLess(ready_s[-1], self.READY_S)


class Cycles(harness.TestCase):
    def predict(self, server):
        body = json.dumps({"instances": [1.0, 2.5, -3.0]}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{server.port}/v1/models/half_plus_two:predict", body)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read()

    def state(self, daemon, server):
        roles = daemon.broker(), daemon.front()
        return {"descriptors": [descriptors(pid) for pid in (*roles, server.pid)],
                "code": mappings(server.pid),
                "memory": {pid: (status_kb(pid, "RssAnon") + status_kb(pid, "VmSwap")) * 1024 for pid in roles}}

    def test_hundreds_of_captures_leave_nothing_and_answers_stay_bit_identical(self):
        before_all = harness.bpf_objects()
        daemon = self.start(harness.Daemon)
        server = self.start(harness.NativeServer, ["half_plus_two"])
        address = harness.wait_target(daemon, server.pid)["address"]
        right = self.predict(server)

        def cycle(number):
            answer = harness.profile(address, duration_ms=1, level=1 + number % 3)
            if harness.response_xspace(answer).errors:
                raise AssertionError(harness.response_xspace(answer).errors)
            return self.predict(server)

        with concurrent.futures.ThreadPoolExecutor(FIRST_AT_ONCE) as pool:
            answers = collections.Counter(pool.map(cycle, range(FIRST)))
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            self.settle(daemon, before_all)
            states = [self.state(daemon, server)]
            for number in range(FIRST, CYCLES, EACH):
                answers += collections.Counter(pool.map(cycle, range(number, number + EACH)))
                self.settle(daemon, before_all)
                states.append(self.state(daemon, server))
        first, last = states[0], states[-1]
        self.assertEqual(dict(answers), {right: CYCLES})
        # Another server of this host that comes and goes takes some for its time.
        # And the broker closes files whose plans nobody has asked for lately.
        harness.wait_until(lambda: all(now <= then for now, then in zip(self.state(daemon, server)["descriptors"], first["descriptors"])), 30,
                           f"no more descriptors than {first['descriptors']}, not {last['descriptors']}")
        self.assertEqual(last["code"], first["code"])
        for pid, role in ((pid, harness.name_of(pid)) for pid in first["memory"]):
            samples = [state["memory"][pid] for state in states]
            print(f"     {role}: memory after each {EACH} captures: {[n >> 10 for n in samples]} kB")
            self.assertLess(harness.slope(samples), KEPT_BYTES * EACH, role)

    def settle(self, daemon, before):
        """Until the last capture has gone altogether."""
        self.assertEqual(harness.leftovers(before, 10, daemon), [])
        # Its own, and the one that serves captures.
        harness.wait_until(lambda: len(glob.glob(f"/proc/{daemon.broker()}/task/*/")) in (0, 2), 10, "the broker's other threads end")


if __name__ == "__main__":
    harness.main()
