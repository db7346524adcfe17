#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Functions of Python programs in sampled stacks, by a program that counts the CPU time of its functions. As root."""
import collections
import re
import struct

import harness
import test_stacks

FIXTURES = test_stacks.FIXTURES
PROGRAM = harness.ROOT / "tests/fixtures/scripts.py"
OK = 0
STACK, SCRIPT = 17, 21
FUNCTIONS = ("half", "third", "fifth")
POINTS = 0.02 if harness.LONG else 0.03
SAMPLES = 10_000 if harness.LONG else 2_000
DURATION = "30s" if harness.LONG else "8s"
DEPTH_MAX = 64
# What the tests have compared so far, for tests/releases.
FIGURE_NAMES = ("samples", "off", "named", "wrong")
FIGURES = {}
MORE = "[more functions of the script]"
UNNAMED = "[function of a script]"


def first_line(name):
    """Where a function of the program begins."""
    lines = PROGRAM.read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.strip().startswith(f"def {name}("))


def scripts_of(frames):
    """The functions of the script in a folded stack, from the outermost one, without their files."""
    return [re.sub(r" \([^)]*:\d+\)$", "", frame) for frame in frames if re.search(r"\.py:\d+\)$", frame)]


def short(name):
    """Without what it is defined in, which code has from 3.11 on."""
    return name.rpartition(".")[2]


class Scripts(harness.TestCase):
    # With another interpreter; None: Debian's.
    packages = None

    def begin(self, *arguments, threads=2, depth=0):
        self.daemon = self.start(harness.Daemon)
        self.program = self.start(harness.Process, "scripts", [self.packages / "bin/python3" if self.packages else "/usr/bin/python3.11", PROGRAM, FIXTURES / "libtensorflow_framework.so.2", threads, depth, *arguments])
        harness.wait_target(self.daemon, self.program.pid)
        self.folded, self.recording = self.directory / "stacks.folded", self.directory / "a.tfp"

    def capture(self, *arguments, duration="1s"):
        command = harness.ctl_capture(self.daemon, [self.program.pid], self.directory / "logdir", "--level", "1", "--folded", self.folded, *arguments,
                                      duration=duration)
        self.assertEqual(command.status, OK, command.stderr)
        return command

    def test_the_shares_of_functions_are_those_that_the_program_counted(self):
        self.begin()
        self.capture("--stacks=999", duration=DURATION)
        seen, others, constructors = collections.Counter(), 0, 0
        for _, frames, count in test_stacks.folded(self.folded):
            scripts = [short(name) for name in scripts_of(frames)]
            inside = [name for name in FUNCTIONS if name in scripts]
            self.assertLessEqual(len(inside), 1, frames)
            if inside:
                at = scripts.index(inside[0])
                self.assertEqual(scripts[at - 4:at], ["run", "serve", "descend", "work"], frames)
                if "<lambda>" in scripts:
                    self.assertEqual(inside, ["fifth"])
                # The interpreter's own code, which calls it, is not shown.
                self.assertFalse([frame for frame in frames if "(__init__" in frame])
                constructors += count * ("__init__" in scripts)
                seen[inside[0]] += count
            else:
                others += count
        samples = seen.total()
        self.assertGreaterEqual(samples, SAMPLES)
        # Reading the clock, and the interpreter's own threads of work.
        self.assertLess(others, samples / 50)
        self.assertGreater(constructors, samples / 50)
        self.program.stop()
        counted = {name: int(ns) for name, ns in re.findall(r"^(\w+) (\d+)$", self.program.stdout(), re.MULTILINE)}
        off = max(abs(seen[n] / samples - counted[n] / sum(counted.values())) for n in FUNCTIONS)
        FIGURES.update(samples=samples, off=f"{off * 100:.2f} points")
        print(f"     {samples} samples; " + ", ".join(f"{n}: {seen[n] / samples:.2%} of {counted[n] / sum(counted.values()):.2%}" for n in FUNCTIONS))
        for name in FUNCTIONS:
            with self.subTest(function=name):
                self.assertAlmostEqual(seen[name] / samples, counted[name] / sum(counted.values()), delta=POINTS)

    def test_functions_have_their_files_and_lines_in_all_outputs(self):
        self.begin(threads=1)
        profile, again = self.directory / "profile.pb.gz", self.directory / "again"
        command = self.capture("--stacks=999", "--pprof", profile, "--record", self.recording)
        hot = {f["name"]: f for f in command.json["hot"][0]["functions"]}
        self.assertEqual(hot["half"]["file"], f"scripts.py:{first_line('half')}", hot)
        self.assertIn(f";half (scripts.py:{first_line('half')})", self.folded.read_text())
        raw = harness.run("/usr/bin/go", "tool", "pprof", "-symbolize=none", "-raw", profile, env={"PPROF_TMPDIR": str(self.directory)})
        self.assertEqual(raw.status, 0, raw.stderr)
        self.assertRegex(raw.stdout, rf" half scripts\.py:{first_line('half')}")
        events = harness.XSpace(harness.xspace_files(self.directory / "logdir")[0]).lines()["sampled functions"]
        stacks = [e.stats["stack"] for e in events if e.name == "sample: half"]
        # Where a function of C calls one of Python's, it is between the two.
        between = r"(?: < \w*(?:_Py|call)\w*(?:\.\w+)*)*"
        self.assertTrue(any(re.match(rf"half{between} < work{between} < descend{between} < serve{between} < (Thread\.)?run{between} < ", stack)
                            for stack in stacks), stacks[:3])
        self.program.stop()
        replay = harness.run(test_stacks.CTL, "replay", self.recording, "-o", again, "--folded", self.directory / "folded", "--json")
        self.assertEqual(replay.status, OK, replay.stderr)
        self.assertEqual((self.directory / "folded").read_text(), self.folded.read_text())
        self.assertEqual(replay.json["hot"], command.json["hot"])

    def test_a_stack_deeper_than_the_limit_is_truncated_and_says_so(self):
        self.begin(threads=1, depth=200)
        self.capture("--stacks=499")
        deep = [frames for _, frames, _ in test_stacks.folded(self.folded) if "half" in scripts_of(frames)]
        self.assertTrue(deep)
        for frames in deep:
            self.assertEqual(len(scripts_of(frames)), DEPTH_MAX, frames)
            self.assertEqual(scripts_of(frames)[-3:], ["descend", "work", "half"])
            self.assertIn(MORE, frames[:frames.index(next(f for f in frames if f.startswith("descend")))])

    def test_memory_of_functions_that_are_freed_gives_no_other_names(self):
        self.begin("made", threads=1)
        self.capture("--stacks=999", duration="3s")
        made = set(re.findall(r";(made_\d+) \((made_\d+)\.py:1\)", self.folded.read_text()))
        self.assertGreater(len(made), 500)
        FIGURES.update(named=len(made), wrong=sum(name != file for name, file in made))
        self.assertEqual([pair for pair in made if pair[0] != pair[1]], [])
        self.assertFalse(re.findall(r"made_\d+ \((?!made_)", self.folded.read_text()))


class OtherRelease(Scripts):
    """The others are tested by tests/releases/cpython.py."""
    packages = harness.BUILD / "releases/cpython-3.12.3"


class Hostile(harness.TestCase):
    """Of an interpreter whose memory is not as expected nothing is shown that is not so."""

    def capture(self, how, release="3.11"):
        daemon = self.start(harness.Daemon)
        program = self.start(harness.Process, "interpreter", [FIXTURES / f"interpreter/python{release}", FIXTURES / "libtensorflow_framework.so.2", how])
        harness.wait_target(daemon, program.pid)
        path = self.directory / "stacks.folded"
        command = harness.ctl_capture(daemon, [program.pid], self.directory / "logdir", "--level", "1", "--stacks=499", "--folded", path)
        self.assertEqual(command.status, OK, command.stderr)
        return test_stacks.folded(path), command.json["warnings"]

    def test_what_is_no_code_or_no_memory_is_not_shown_and_counted(self):
        for how in ("code", "none"):
            with self.subTest(how=how):
                stacks, warnings = self.capture(how)
                self.assertTrue(any(frames[-1] == "_PyEval_EvalFrameDefault" for _, frames, _ in stacks), stacks)
                self.assertFalse([frames for _, frames, _ in stacks if scripts_of(frames) or UNNAMED in frames])
                self.assertTrue(any("have not all functions of the script" in w for w in warnings), warnings)

    def test_the_state_of_another_thread_is_not_read(self):
        stacks, warnings = self.capture("other")
        self.assertTrue(any(frames[-1] == "_PyEval_EvalFrameDefault" for _, frames, _ in stacks), stacks)
        self.assertFalse([frames for _, frames, _ in stacks if scripts_of(frames) or UNNAMED in frames])
        self.assertFalse([w for w in warnings if "script" in w], warnings)

    def test_a_frame_that_is_its_own_caller_ends_at_the_limit(self):
        for release in ("3.11", "3.12"):
            with self.subTest(release=release):
                stacks, _ = self.capture("loop", release)
                deep = [frames for _, frames, _ in stacks if MORE in frames]
                self.assertTrue(deep, stacks)
                for frames in deep:
                    self.assertEqual(sum(f.startswith(UNNAMED) for f in frames), DEPTH_MAX, frames)

    def test_frames_without_a_function_that_have_no_end_show_none(self):
        stacks, warnings = self.capture("empty", "3.12")
        self.assertTrue(any(frames[-1] == "_PyEval_EvalFrameDefault" for _, frames, _ in stacks), stacks)
        self.assertFalse([frames for _, frames, _ in stacks if scripts_of(frames) or UNNAMED in frames or MORE in frames])
        self.assertTrue(any("have not all functions of the script" in w for w in warnings), warnings)


class Others(harness.TestCase):
    def test_a_target_without_an_interpreter_has_no_records_of_one(self):
        daemon = self.start(harness.Daemon)
        program = self.start(harness.Process, "shares", [FIXTURES / "shares", FIXTURES / "libtensorflow_framework.so.2", 2])
        harness.wait_target(daemon, program.pid)
        recording = self.directory / "a.tfp"
        command = harness.ctl_capture(daemon, [program.pid], self.directory / "logdir", "--level", "1", "--stacks=499", "--record", recording)
        self.assertEqual(command.status, OK, command.stderr)
        stacks = test_stacks.records(recording, STACK)
        self.assertTrue(stacks)
        self.assertEqual({struct.unpack_from("<22xH", stack)[0] for stack in stacks}, {0})
        self.assertEqual(test_stacks.records(recording, SCRIPT), [])


if __name__ == "__main__":
    harness.main()
