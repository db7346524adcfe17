# SPDX-License-Identifier: Apache-2.0
"""What a capture must never do to its target, over and over: names that go stale, and what a thousand of them leave behind."""
import collections
import concurrent.futures
import glob
import json
import pathlib
import re
import urllib.request

import harness

# The first ones, of which some run at once, fill the allocator's arenas; of the rest memory is looked at after each so many.
FIRST, EACH, AT_ONCE = 520, 60, 4
CYCLES = FIRST + EACH * (40 if harness.LONG else 8)
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


class Cycles(harness.TestCase):
    def predict(self, server):
        body = json.dumps({"instances": [1.0, 2.5, -3.0]}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{server.port}/v1/models/half_plus_two:predict", body)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read()

    def state(self, daemon, server):
        front = daemon.front()
        return {"descriptors": [descriptors(pid) for pid in (daemon.pid, front, server.pid)],
                "code": mappings(server.pid),
                "memory": {pid: (status_kb(pid, "RssAnon") + status_kb(pid, "VmSwap")) * 1024 for pid in (daemon.pid, front)}}

    def test_a_thousand_captures_leave_nothing_and_answers_stay_bit_identical(self):
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

        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            answers = collections.Counter(pool.map(cycle, range(FIRST)))
            self.settle(daemon, before_all)
            states = [self.state(daemon, server)]
            for number in range(FIRST, CYCLES, EACH):
                answers += collections.Counter(pool.map(cycle, range(number, number + EACH)))
                self.settle(daemon, before_all)
                states.append(self.state(daemon, server))
        first, last = states[0], states[-1]
        self.assertEqual(dict(answers), {right: CYCLES})
        # Another server of this host that comes and goes takes some for its time.
        harness.wait_until(lambda: self.state(daemon, server)["descriptors"] == first["descriptors"], 30,
                           f"as many descriptors as {first['descriptors']}, not {last['descriptors']}")
        self.assertEqual(last["code"], first["code"])
        for pid, role in zip(first["memory"], ("broker", "front")):
            samples = [state["memory"][pid] for state in states]
            print(f"     {role}: memory after each {EACH} captures: {[n >> 10 for n in samples]} kB")
            self.assertLess(harness.slope(samples), KEPT_BYTES * EACH, role)

    def settle(self, daemon, before):
        """Until the last capture has gone altogether."""
        self.assertEqual(harness.leftovers(before, 10, daemon), [])
        harness.wait_until(lambda: not glob.glob(f"/proc/{daemon.pid}/task/*/") or
                           len(glob.glob(f"/proc/{daemon.pid}/task/*/")) == 1, 10, "the broker's threads end")


if __name__ == "__main__":
    harness.main()
