#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sampled stacks, by a program that counts the CPU time of its functions. As root."""
import collections
import concurrent.futures
import os
import re
import signal
import struct

import check_xspace
import harness

CTL = harness.OUT / "tfprofctl"
FIXTURES = harness.BUILD / "fixtures"
OK, USAGE, LOSS = 0, 2, 6
RECORDS = 5
STACK = 17
# Of the program's functions, as its own clock has them.
FUNCTIONS = ("half", "third", "in_kernel")
POINTS = 0.02
# What is known of sockets needs the most: 26,000.
VERIFIED_MAX = 40_000
SAMPLES = 10_000 if harness.LONG else 2_000
DURATION = "30s" if harness.LONG else "8s"


def folded(path):
    """The stacks of a folded file: (thread, frames from the outermost, count)."""
    found = []
    for line in path.read_text().splitlines():
        frames, _, count = line.rpartition(" ")
        thread, *frames = frames.split(";")
        found.append((thread, frames, int(count)))
    return found


def records(path, wanted):
    """The records of a kind in a recording, as bytes."""
    data, at, found = path.read_bytes(), 24, []
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        at += 16
        end = at + size
        while kind == RECORDS and at < end:
            record, words = struct.unpack_from("<12xBxB", data, at)
            if not words:
                break
            if record == wanted:
                found.append(data[at:at + words * 8])
            at += words * 8
        at = end + -size % 8
    return found


class Stacks(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon = self.start(harness.Daemon)
        self.program = self.start(harness.Process, "shares", [FIXTURES / "shares", FIXTURES / "libtensorflow_framework.so.2", 2])
        harness.wait_target(self.daemon, self.program.pid)
        self.folded, self.recording = self.directory / "stacks.folded", self.directory / "a.tfp"

    def capture(self, *arguments, duration="1s", level="1"):
        return harness.ctl_capture(self.daemon, [self.program.pid], self.directory / "logdir", "--level", level, *arguments, duration=duration)

    def count(self):
        """The CPU time of each function until now, in ns, by the program's own clock."""
        reports = lambda: re.findall("".join(rf"^{name} (\d+)\n" for name in FUNCTIONS), self.program.stdout(), re.MULTILINE)
        before = len(reports())
        self.program.send(signal.SIGUSR1)
        harness.wait_until(lambda: len(reports()) > before, 5, "the program's report")
        return [int(ns) for ns in reports()[-1]]

    def test_the_shares_of_functions_are_those_that_the_program_counted(self):
        before = self.count()
        command = self.capture("--stacks=999", "--folded", self.folded, duration=DURATION)
        taken = [ns - earlier for ns, earlier in zip(self.count(), before)]
        self.assertEqual(command.status, OK, command.stderr)
        seen, others, hidden = collections.Counter(), 0, 0
        for _, frames, count in folded(self.folded):
            inside = [name for name in FUNCTIONS if name in frames]
            self.assertLessEqual(len(inside), 1, frames)
            if inside:
                callers = frames[:frames.index(inside[0])]
                self.assertIn(callers[-2:], (["serve", "work"], [*callers[-2:-1], "serve"]))
                hidden += count * (callers[-1] != "work")
                seen[inside[0]] += count
            else:
                others += count
        samples = seen.total()
        self.assertGreaterEqual(samples, SAMPLES)
        # At its first instruction a function has no frame yet: its caller is hidden.
        self.assertLess(hidden, samples / 100)
        # Reading the clock.
        self.assertLess(others, samples / 100, [line for line in folded(self.folded) if not set(FUNCTIONS) & set(line[1])])
        counted = {name: ns / sum(taken) for name, ns in zip(FUNCTIONS, taken)}
        print(f"     {samples} samples; " + ", ".join(f"{n}: {seen[n] / samples:.2%} of {counted[n]:.2%}" for n in FUNCTIONS))
        for name in FUNCTIONS:
            self.assertAlmostEqual(seen[name] / samples, counted[name], delta=POINTS)

    def test_the_verifier_is_soon_done_with_every_program(self):
        """Each capture waits for it: it takes a microsecond for one or two of these instructions."""
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            future = pool.submit(self.capture, "--stacks", level="3", duration="3s")
            verified = harness.wait_until(lambda: self.with_sampler(harness.verified_instructions(self.daemon)), 20, "programs")
            self.assertEqual(future.result().status, OK)
        self.assertLessEqual({"probe", "on_switch", "on_sent"}, set(verified))
        self.assertEqual({name: n for name, n in verified.items() if n > VERIFIED_MAX}, {})

    def with_sampler(self, programs):
        return {"on_sample", "on_sample_scripts"} & set(programs) and programs

    def test_functions_of_the_kernel_have_names_and_no_addresses(self):
        command = self.capture("--stacks=499", "--folded", self.folded, "--record", self.recording)
        self.assertEqual(command.status, OK, command.stderr)
        inside = [frames for _, frames, _ in folded(self.folded) if frames[-1].endswith("_[k]")]
        self.assertTrue(inside)
        self.assertTrue(any("in_kernel" in frames and any("read" in f and f.endswith("_[k]") for f in frames) for frames in inside), inside)
        self.assertFalse([f for frames in inside for f in frames if f.endswith("_[k]") and re.search("0x[0-9a-f]", f)])
        stacks = records(self.recording, STACK)
        self.assertTrue(stacks)
        for stack in stacks:
            for frame in struct.unpack_from(f"<{len(stack) // 8 - 3}Q", stack, 24):
                self.assertLess(frame, 1 << 47)

    def test_a_replay_gives_the_same_files(self):
        profile, again = self.directory / "profile", self.directory / "again"
        command = self.capture("--stacks", "--folded", self.folded, "--pprof", profile, "--record", self.recording)
        self.assertEqual(command.status, OK, command.stderr)
        self.program.stop()
        replay = harness.run(CTL, "replay", self.recording, "-o", again, "--folded", self.directory / "folded", "--pprof", self.directory / "profile2", "--json")
        self.assertEqual(replay.status, OK, replay.stderr)
        self.assertIn("half", self.folded.read_text())
        self.assertEqual((self.directory / "folded").read_text(), self.folded.read_text())
        self.assertEqual((self.directory / "profile2").read_bytes(), profile.read_bytes())
        self.assertEqual(replay.json["hot"], command.json["hot"])
        live, replayed = harness.xspace_files(self.directory / "logdir"), harness.xspace_files(again)
        self.assertEqual(live[0].read_bytes(), replayed[0].read_bytes())

    def test_pprof_reads_the_functions_and_labels_of_each_sample(self):
        profile = self.directory / "profile.pb.gz"
        command = self.capture("--stacks=499", "--pprof", profile, level="2")
        self.assertEqual(command.status, OK, command.stderr)
        hot = {place["of"]: place for place in command.json["hot"]}
        self.assertEqual(hot["all"]["functions"][0]["name"], "half")
        self.assertEqual(hot["all"]["functions"][0]["file"], "shares")
        # Debian's package has it built; other releases would build it now.
        pprof = lambda *arguments: harness.run("/usr/bin/go", "tool", "pprof", "-symbolize=none", *arguments, profile,
                                               env={"PPROF_TMPDIR": str(self.directory)})
        top = pprof("-top", "-sample_index=samples")
        self.assertEqual(top.status, 0, top.stderr)
        flat = {name: int(count) for count, name in re.findall(r"^ +(\d+) .*%  (\S+)$", top.stdout, re.MULTILINE)}
        self.assertEqual(flat["half"], hot["all"]["functions"][0]["self"], top.stdout)
        self.assertGreaterEqual(flat.keys(), set(FUNCTIONS) - {"in_kernel"})
        tags = pprof("-tags")
        self.assertEqual(tags.status, 0, tags.stderr)
        self.assertRegex(tags.stdout, rf"process:[^\n]*\n[^\n]* shares/{self.program.pid}\n")
        self.assertRegex(tags.stdout, r"thread:[^\n]*\n[^\n]* shares/\d+\n[^\n]* shares/\d+\n")
        # Each thread serves one marked request after the other. Samples that have all in common are one entry, with their number.
        raw = pprof("-raw")
        entries = re.findall(r"^ +(\d+) +\d+: [\d ]+\n((?: {16}.*\n)*)", raw.stdout, re.MULTILINE)
        self.assertEqual(sum(int(count) for count, _ in entries), hot["all"]["samples"], raw.stdout[:2000])
        for label in r"request:\[\d+", r"phase:\[[^]]+":
            labeled = sum(int(count) for count, labels in entries if re.search(label, labels))
            self.assertGreater(labeled, 0.9 * hot["all"]["samples"], raw.stdout[:2000])

    def test_the_trace_has_a_line_with_an_instant_for_each_sample(self):
        command = self.capture("--stacks=499")
        self.assertEqual(command.status, OK, command.stderr)
        path = harness.xspace_files(self.directory / "logdir")[0]
        events = harness.XSpace(path).lines()["sampled functions"]
        self.assertEqual(len(events), command.json["hot"][0]["samples"])
        self.assertTrue(all(e.duration_ps == 0 and e.name.startswith("sample: ") for e in events))
        self.assertEqual({e.stats["thread"].split("/")[0] for e in events}, {"shares"})
        in_half = [e for e in events if e.name == "sample: half"]
        self.assertTrue(in_half)
        self.assertTrue(any(e.stats["stack"].startswith("half < work < serve") for e in in_half))
        self.assertTrue(any("request" in e.stats for e in in_half))
        checker = check_xspace.Checker(path.read_bytes())
        self.assertTrue(checker.run(), checker.broken)

    def test_a_request_has_the_functions_that_worked_for_it(self):
        command = self.capture("--stacks=999", "--slowest", "5", level="2")
        self.assertEqual(command.status, OK, command.stderr)
        self.assertEqual(len(command.json["slowest"]), 5)
        self.assertFalse(all(request["cut_start"] or request["cut_end"] for request in command.json["slowest"]))
        # Of one that the window truncates, any function may lie outside of it, or all its work.
        for request in [r for r in command.json["slowest"] if not r["cut_start"] and not r["cut_end"]]:
            self.assertGreater(request["samples"], 0, request)
            self.assertLessEqual(sum(f["self"] for f in request["functions"]), request["samples"])
            self.assertIn("half", [f["name"] for f in request["functions"]], request)
        text = harness.ctl(self.daemon, "capture", "--pid", self.program.pid, "--duration", "1s", "-o", self.directory / "logdir",
                           "--stacks=999", "--slowest", "1")
        self.assertRegex(text.stdout, r"functions by samples: .*\bhalf\b.* samples?\)")
        self.assertRegex(text.stdout, r"Functions by samples:\n.*\n.*all [\d,]+ samples +half +shares")

    def test_nothing_is_sampled_unless_it_is_asked_for(self):
        command = self.capture("--record", self.recording, level="2")
        self.assertEqual(command.status, OK, command.stderr)
        self.assertEqual(records(self.recording, STACK), [])

    def test_only_the_target_is_sampled(self):
        other = self.start(harness.Process, "other", [FIXTURES / "shares", FIXTURES / "libtensorflow_framework.so.2", 2])
        command = self.capture("--stacks=499", "--record", self.recording)
        self.assertEqual(command.status, OK, command.stderr)
        threads = {struct.unpack_from("<8xI", stack)[0] for stack in records(self.recording, STACK)}
        self.assertTrue(threads)
        self.assertLessEqual(threads, {int(tid) for tid in os.listdir(f"/proc/{self.program.pid}/task")})
        self.assertTrue(other.running())


class BadUsage(harness.TestCase):
    def test_rates_outside_the_limits_are_refused(self):
        for rate in ("0", "1000", "fast"):
            command = harness.run(CTL, "capture", f"--stacks={rate}")
            self.assertEqual(command.status, USAGE, command.stderr)
            self.assertRegex(command.stderr, "samples a second")

    def test_a_file_that_cannot_be_written_is_refused_before_a_daemon_is_asked(self):
        command = harness.run(CTL, "--daemon", self.directory / "none", "capture", "--folded", self.directory / "no/file")
        self.assertEqual(command.status, USAGE)
        self.assertIn("its parent directory does not exist", command.stderr)


if __name__ == "__main__":
    harness.main()
