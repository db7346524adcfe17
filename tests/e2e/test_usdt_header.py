# SPDX-License-Identifier: Apache-2.0
"""include/tfprof.h in programs: C and C++, gcc and clang, every level of optimisation, position-independent or not. Needs
readelf of binutils, gcc, g++ and clang."""

import pathlib
import re
import subprocess
import tempfile

import harness

PROBES = harness.ROOT / "tests/usdt/probes.c"
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", f"-I{harness.ROOT}")
COMPILERS = {
    "gcc": ("gcc", "-std=c99"),
    "clang": ("clang", "-std=gnu11"),
    "g++": ("g++", "-x", "c++", "-std=c++11"),
    "clang++": ("clang++", "-x", "c++", "-std=c++17"),
}
BUILDS = (("-fPIE", "-pie"), ("-fPIC", "-shared"), ("-fno-pie", "-no-pie"), ("-ffunction-sections", "-Wl,--gc-sections"), ("-flto",))
# sites of each probe in the source; loops that a compiler copies may add some
SITES = {"none": 1, "constants": 1, "once": 1, "inlined": 3, "small": 1, "wide": 1, "kinds": 1, "memory": 1, "guarded": 2}
OPERAND = re.compile(r"-?[1248]@(\$-?[0-9]+|%[a-z0-9]+)$")


def build(compiler, output, *options, source=PROBES):
    return subprocess.run([*COMPILERS[compiler], *WARNINGS, *options, "-o", output, source], capture_output=True, text=True)


def notes(path):
    """The sites of a file: (name, address, semaphore, arguments)."""
    text = subprocess.run(["readelf", "-nW", path], check=True, capture_output=True, text=True).stdout
    found = re.findall(r"Provider: tfprof_test\s+Name: (\w+)\s+Location: 0x(\w+), Base: 0x\w+, Semaphore: 0x(\w+)\s+Arguments: ?(.*)",
                       text)
    return [(name, int(address, 16), int(semaphore, 16), arguments.split()) for name, address, semaphore, arguments in found]


class Header(harness.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.directory = pathlib.Path(self.temporary.name)

    def check_notes(self, found):
        names = [name for name, *_ in found]
        for name, count in SITES.items():
            self.assertGreaterEqual(names.count(name), count, name)
        semaphores = {semaphore for name, _, semaphore, _ in found if name == "guarded"}
        self.assertEqual(len(semaphores), 1)
        self.assertNotIn(0, semaphores)
        self.assertEqual({semaphore for name, _, semaphore, _ in found if name != "guarded"}, {0})
        self.assertEqual(len({address for _, address, _, _ in found}), len(found))
        for name, _, _, arguments in found:
            for argument in arguments:
                self.assertRegex(argument, OPERAND, name)

    def test_probes_compile_and_are_described_however_the_program_is_built(self):
        output = self.directory / "probes"
        for compiler in COMPILERS:
            for level in ("-O0", "-O1", "-O2", "-O3", "-Os"):
                for options in BUILDS:
                    with self.subTest(compiler=compiler, level=level, options=options):
                        done = build(compiler, output, level, *options)
                        self.assertEqual(done.returncode, 0, done.stderr)
                        self.check_notes(notes(output))
                        if "-shared" not in options:
                            done = subprocess.run([output, "3"], capture_output=True, text=True)
                            self.assertEqual((done.returncode, done.stdout), (0, "3\n"))

    def test_programs_compile_and_run_with_probes_turned_off(self):
        output = self.directory / "probes"
        for compiler in COMPILERS:
            with self.subTest(compiler=compiler):
                done = build(compiler, output, "-O2", "-DTFPROF_DISABLE")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(notes(output), [])
                self.assertEqual(subprocess.run([output, "3"], capture_output=True, text=True).stdout, "3\n")

    def test_arguments_of_other_types_are_refused_with_a_message(self):
        source = self.directory / "bad.c"
        for declaration in ("double v = 1", "float v = 1", "struct { int a; } v = { 1 }", "__extension__ __int128 v = 1"):
            source.write_text(f'#include "include/tfprof.h"\nint main(void) {{ {declaration}; TFPROF_PROBE(a, b, 1, v); return 0; }}\n')
            for compiler in COMPILERS:
                with self.subTest(compiler=compiler, declaration=declaration):
                    done = build(compiler, self.directory / "bad", source=source)
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn("an argument of a probe is an integer, an enumeration or a pointer", done.stderr)


if __name__ == "__main__":
    harness.main()
