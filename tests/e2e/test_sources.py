# SPDX-License-Identifier: Apache-2.0
"""What is known of functions in files that were stripped: by virtual tables, by compressed symbols, by debug files, by
unwind tables. The files are ONNX Runtime's wheel, copies of TensorFlow's libraries, and small programs of every kind."""

import errno
import glob
import importlib.util
import json
import lzma
import pathlib
import subprocess

import harness

TOOL = harness.BUILD / "fixtures/elf_sources"
CLASSES = harness.ROOT / "tests/fixtures/classes.cc"
MACHINE = harness.ROOT / "tests/fixtures/machine.c"
# What struct machine_api has in its order, and OrtApi's entry 9 (onnxruntime_c_api.h), whose first four arguments are the session, options
# and the inputs' names and values.
MACHINE_API = ("check", "open_it", "close_it", "begin", "end", "compute", "turn")
ORT_RUN = 9

# how the fixture is built; a fixed program's tables lie among its constants when it is compiled for that
BUILDS = {
    "shared": ("-fPIC", "-shared"),
    "short-relocations": ("-fPIC", "-shared", "-Wl,-z,pack-relative-relocs"),
    "pie": ("-fPIE", "-pie"),
    "fixed": ("-fno-pie", "-no-pie"),
    "fixed-one-segment": ("-fno-pie", "-no-pie", "-Wl,-z,noseparate-code"),
    "runtime-inside": ("-fPIE", "-pie", "-static-libstdc++", "-static-libgcc"),
    "static-pie": ("-fPIE", "-static-pie"),
    "static": ("-fno-pie", "-no-pie", "-static"),
}


def run(*arguments):
    return subprocess.run([str(a) for a in arguments], check=True, capture_output=True, text=True).stdout


def ask(*arguments):
    """The tool's output for a file."""
    process = subprocess.run([str(a) for a in (TOOL, *arguments)], capture_output=True, text=True)
    if process.returncode not in (0, 1):
        raise harness.HarnessError(f"{process.args} ended with {process.returncode}: {process.stderr}")
    return json.loads(process.stdout)


def functions(path):
    """Address and size of each function of an unstripped file, by its name."""
    found = {}
    for line in run("nm", "-S", path).splitlines():
        fields = line.split(" ", 3)
        if len(fields) == 4 and fields[0] and fields[2] in "tTwW":
            found[fields[3]] = (int(fields[0], 16), int(fields[1], 16))
    return found


def named(found, start):
    """The address of the only function whose name starts so."""
    addresses = {address for name, (address, _) in found.items() if name.startswith(start) and "." not in name}
    if len(addresses) != 1:
        raise harness.HarnessError(f"{len(addresses)} functions {start}")
    return addresses.pop()


def package(name):
    spec = importlib.util.find_spec(name)
    if not spec:
        raise harness.HarnessError(f"the Python package {name} is missing: run make deps")
    return pathlib.Path(spec.submodule_search_locations[0])


class Sources(harness.TestCase):
    def strip(self, path):
        stripped = self.directory / f"{pathlib.Path(path).name}.stripped"
        run("strip", "--strip-all", "-o", stripped, path)
        return stripped

    def build(self, kind):
        path = self.directory / kind
        run("g++", "-std=gnu++17", "-O1", "-g0", "-Wl,--build-id=sha1", *BUILDS[kind], "-o", path, CLASSES)
        return path

    def assert_quick(self, answer):
        """Bounds that only an index of the wrong kind breaks, on however busy a machine."""
        self.assertLess(answer["open_s"] + answer["find_s"], 2)
        self.assertLess(answer["memory_kib"], 200 << 10)

    def check_classes(self, kind):
        path = self.build(kind)
        symbols = functions(path)
        answer = ask("classes", self.strip(path), "N4shop4BaseE")
        derived = {c["name"]: c for c in answer["derived"]}
        self.assertEqual(set(derived), {"N4shop3OneE", "N4shop3TwoE", "N4shop4ManyE", "N4shop7VirtualE",
                                        "N4shop12_GLOBAL__N_16HiddenE"}, kind)
        self.assertEqual(derived["N4shop7VirtualE"]["vtable"], 0, kind)
        expected = {"N4shop3OneE": ("_ZN4shop3One3runEi", "_ZN4shop4Base4stopEv"),
                    "N4shop3TwoE": ("_ZN4shop3Two3runEi", "_ZN4shop3Two4stopEv", "_ZN4shop3Two4moreEv"),
                    "N4shop4ManyE": ("_ZThn16_N4shop4Many3runEi", "_ZN4shop4Base4stopEv"),
                    "N4shop12_GLOBAL__N_16HiddenE": ("_ZN4shop12_GLOBAL__N_16Hidden3runEi", "_ZN4shop4Base4stopEv")}
        for name, names in expected.items():
            slots = derived[name]["slots"]
            # a virtual destructor takes the first two
            self.assertEqual(slots[2:], [symbols[n][0] for n in names], f"{name} in {kind}")
        self.assertEqual(len(answer["itself"]), 1, kind)

    def test_classes_of_stripped_programs_of_every_kind_lead_to_their_functions(self):
        for kind in BUILDS:
            self.check_classes(kind)

    def test_onnx_runtime_has_its_operators(self):
        [library] = glob.glob(f"{package('onnxruntime')}/capi/onnxruntime_pybind11_state*.so")
        answer = ask("classes", library, "N11onnxruntime8OpKernelE")
        # after the two destructors
        compute = {c["slots"][2] for c in answer["derived"] if len(c["slots"]) > 2 and c["slots"][2]}
        self.assertGreaterEqual(len(answer["derived"]), 500)
        self.assertGreaterEqual(len(compute), 500)
        for address in sorted(compute)[::10]:
            self.assertEqual(ask("bounds", library, f"{address:x}").get("start"), address)
        self.assert_quick(answer)
        print(f"     ONNX Runtime: {len(answer['derived'])} kernels with {len(compute)} functions, "
                     f"{answer['open_s'] + answer['find_s']:.3f} s, {answer['memory_kib'] >> 10} MiB")

    def test_stripped_tensorflow_has_its_devices_and_executors(self):
        library = package("tensorflow") / "libtensorflow_framework.so.2"
        stripped = self.strip(library)
        symbols = functions(library)
        [device] = ask("classes", stripped, "N10tensorflow16ThreadPoolDeviceE")["itself"]
        self.assertEqual(device["slots"][23], named(symbols, "_ZN10tensorflow16ThreadPoolDevice7ComputeE"))
        self.assertEqual(device["slots"][24], named(symbols, "_ZN10tensorflow16ThreadPoolDevice12ComputeAsyncE"))
        answer = ask("classes", stripped, "N10tensorflow8ExecutorE")
        executors = {c["name"]: c["slots"][3] for c in answer["derived"]}
        self.assertEqual(executors, {
            f"N10tensorflow12_GLOBAL__N_1{name}E": named(symbols, f"_ZN10tensorflow12_GLOBAL__N_1{name}16RunAsyncInternalE")
            for name in ("12ExecutorImpl", "26SingleThreadedExecutorImpl")})
        self.assert_quick(answer)
        for name, (address, size) in sorted(symbols.items())[::500]:
            if size and ".cold" not in name:
                self.assertEqual(ask("bounds", stripped, f"{address + size // 2:x}"), {"start": address, "size": size}, name)

    def test_largest_library_is_indexed_quickly(self):
        stripped = self.strip(package("tensorflow") / "libtensorflow_cc.so.2")
        answer = ask("classes", stripped, "N10tensorflow8OpKernelE")
        self.assertGreater(len(answer["derived"]), 5000)
        self.assert_quick(answer)
        print(f"     TensorFlow: {answer['classes']} classes, {answer['open_s'] + answer['find_s']:.3f} s, "
                     f"{answer['memory_kib'] >> 10} MiB")

    def test_functions_are_found_by_debug_file_and_by_compressed_symbols(self):
        path = self.build("pie")
        wanted = named(functions(path), "_ZN4shop3runEi")
        stripped = self.strip(path)
        stripped.chmod(0o755)
        self.assertEqual(ask("symbols", stripped, "_ZN4shop3runEi")["symbols"], [])

        build_id = run("readelf", "-n", path).split("Build ID: ")[1].split()[0]
        debug = self.directory / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
        debug.parent.mkdir(parents=True)
        run("objcopy", "--only-keep-debug", path, debug)
        debug.chmod(0o644)
        [symbol] = ask("symbols", stripped, "_ZN4shop3runEi", self.directory)["symbols"]
        self.assertEqual((symbol["address"], symbol["source"]), (wanted, "debug file"))

        compressed = self.directory / "symbols.xz"
        compressed.write_bytes(lzma.compress(debug.read_bytes()))
        run("objcopy", "--add-section", f".gnu_debugdata={compressed}", stripped)
        [symbol] = ask("symbols", stripped, "_ZN4shop3runEi")["symbols"]
        self.assertEqual((symbol["address"], symbol["source"]), (wanted, ".gnu_debugdata"))

    def build_machine(self, compiler, level, kind):
        path = self.directory / f"machine-{compiler}-{level}-{kind}"
        flags = [f for f in BUILDS[kind] if not f.startswith("-static-lib")]
        main = [] if "-shared" in flags else ["-rdynamic", "-x", "c", self.directory / "main.c"]
        (self.directory / "main.c").write_text("int main(void) { return 0; }\n")
        run(compiler, f"-O{level}", "-g0", f"-I{harness.ROOT}", "-fcf-protection=full", *flags, "-o", path, MACHINE, *main)
        return path

    def check_tables(self, path, kind):
        symbols, stripped = functions(path), self.strip(path)
        answer = ask("functions", stripped, "machine_get_api_base", len(MACHINE_API), 0)
        names = (ask("strings", stripped, "machine_op_name", 4), ask("strings", stripped, "machine_valve_name", 4))
        if "static" in kind and "error" in answer:
            # Linkers leave exports out of such programs.
            self.assertEqual([a.get("errno") for a in (answer, *names)], [errno.ENOENT] * 3, path)
            return
        self.assertEqual(answer.get("entries", answer)[:len(MACHINE_API)], [symbols[name][0] for name in MACHINE_API], path)
        self.assertEqual([n.get("entries", [n])[:4] for n in names],
                         [["NONE", "MUL_MAT", "ADD", "RMS_NORM"], ["Closed", "HalfOpen", "Open", "Broken"]], path)

    def test_tables_of_functions_and_of_names_are_found_in_stripped_programs_of_every_kind(self):
        for kind in BUILDS:
            for compiler in ("gcc", "clang"):
                for level in (1, 2):
                    self.check_tables(self.build_machine(compiler, level, kind), kind)

    def test_the_api_struct_of_onnx_runtime_leads_to_its_run(self):
        [library] = glob.glob(f"{package('onnxruntime')}/capi/libonnxruntime.so.1.*")
        answer = ask("functions", library, "OrtGetApiBase", 200, 0)
        self.assertGreater(len(answer["entries"]), 300, answer)
        # What a program gets that calls it; the loader has put the library somewhere.
        code = ("import ctypes, sys; l = ctypes.CDLL(sys.argv[1]); l.OrtGetApiBase.restype = ctypes.POINTER(ctypes.c_void_p);"
                "get = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(l.OrtGetApiBase()[0]);"
                "base = min(int(m.split('-')[0], 16) for m in open('/proc/self/maps') if m.strip().endswith(sys.argv[1].rsplit('/', 1)[1]));"
                "print(*(p - base for p in ctypes.cast(get(1), ctypes.POINTER(ctypes.c_uint64))[:200]))")
        live = [int(p) for p in run(harness.PYTHON, "-c", code, library).split()]
        self.assertEqual(answer["entries"][:200], live)
        self.assertEqual(ask("bounds", library, f"{live[ORT_RUN]:x}").get("start"), live[ORT_RUN])
        print(f"     ONNX Runtime: {len(answer['entries'])} entries, Run at {live[ORT_RUN]:#x}")


if __name__ == "__main__":
    harness.main()
