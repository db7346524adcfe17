# SPDX-License-Identifier: Apache-2.0
"""What TensorBoard's pages show is what the trace holds, page by page, and nothing of one page is in another. As root."""
import collections
import pathlib
import signal

import harness
import test_delays

# Of a load without a pause: some thousand allocations and requests, which the converters take seconds for.
WINDOW = "500ms"
# Runs a program with a filter that lets everything through.
FILTERED = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(code)))
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.c_void_p(ctypes.addressof(program))):
    sys.exit(os.strerror(ctypes.get_errno()))
os.execv(sys.argv[1], sys.argv[1:])
"""


class TestCase(harness.TestCase):
    MODEL = "layered"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.daemon = cls.start_shared(harness.Daemon)
        cls.server = cls.start_shared(harness.NativeServer, [cls.MODEL])
        harness.wait_target(cls.daemon, cls.server.pid)

    def setUp(self):
        super().setUp()
        self.load = self.start_load()

    def start_load(self):
        # The first runs take long.
        self.start(harness.Load, self.server, model=self.MODEL, count=20).finish()
        return self.start(harness.Load, self.server, model=self.MODEL, clients=2)

    def capture(self, *options):
        """A capture's JSON, its XSpace, and its pages; the load pauses then."""
        self.load.send(signal.SIGCONT)
        logdir = self.directory / ("logdir" + "-".join(options))
        command = harness.ctl_capture(self.daemon, [self.server.pid], logdir, *options, duration=WINDOW)
        self.load.send(signal.SIGSTOP)
        self.assertEqual(command.status, 0, command.stderr)
        file, = harness.xspace_files(logdir)
        return command.json, harness.XSpace(file), harness.Pages(file)


class Memory(TestCase):
    def test_the_memory_profile_is_the_sum_of_what_was_allocated_and_freed(self):
        told, xspace, pages = self.capture("--memory")
        events = [e for e in xspace.events() if e.name in ("MemoryAllocation", "MemoryDeallocation")]
        live, peak = {}, 0
        for e in sorted(events, key=lambda e: e.start_ps):
            size = e.stats["allocation_bytes"]
            if e.name == "MemoryAllocation":
                live[e.stats["addr"]] = size
            else:
                self.assertEqual(live.pop(e.stats["addr"]), size)
            in_use = sum(live.values())
            self.assertEqual(e.stats["bytes_allocated"], in_use)
            peak = max(peak, in_use)

        allocator, = told["memory"]
        count = collections.Counter(e.name for e in events)
        self.assertEqual((allocator["allocator"], allocator["allocations"], allocator["deallocations"], allocator["peak_bytes"]),
                         ("cpu", count["MemoryAllocation"], count["MemoryDeallocation"], peak))
        self.assertEqual(allocator["allocated_bytes"], sum(e.stats["allocation_bytes"] for e in events if e.name == "MemoryAllocation"))
        self.assertGreater(count["MemoryAllocation"], 1000)
        in_layers = sum("/layer_" in e.stats.get("tf_op", "") for e in events)
        self.assertGreater(in_layers, 0.9 * count["MemoryAllocation"])

        profiles = pages.page("memory_profile")["memoryProfilePerAllocator"]
        self.assertEqual(set(profiles), {"cpu"})
        profile = profiles["cpu"]
        self.assert_memory_page(profile, xspace, events)
        snapshots = profile["sampledTimelineSnapshots"]
        self.assertGreater(len(snapshots), 500)
        # The table of the peak lists all of it.
        table = [(profile["memoryProfileSnapshots"][int(a["snapshotIndex"])]["activityMetadata"], int(a["numOccurrences"]))
                 for a in profile["activeAllocations"]]
        self.assertEqual(sum(int(a["allocationBytes"]) * n for a, n in table), peak)
        print(f"     {len(events)} events, {peak} bytes at most, {len(snapshots)} points on the page")

        samples = [value for e in xspace.events("allocated: cpu") for value in e.stats.values()]
        self.assertEqual(max(samples), peak)
        # The viewer draws as many of them as it has room for: a peak of a moment may not be among them.
        shown = [value for _, value in pages.counters()["allocated: cpu"]]
        self.assertLessEqual(set(shown), set(samples))
        self.assertGreater(len(shown), 500)
        print(f"     {len(shown)} of {len(samples)} points drawn")

    def test_operations_are_the_same_with_everything_else_in_the_trace(self):
        for options in ("--level", "1", "--memory"), ("--level", "3"), ("--level", "2", "--memory=off"):
            _, xspace, pages = self.capture(*options)
            memory = bool(xspace.events("MemoryAllocation"))
            self.assertEqual(memory, options != ("--level", "2", "--memory=off"))
            rows = {f"{row['operation']}:{row['type']}": row["occurrences"] for row in pages.op_stats()}
            # Of the runtime's own profiler the page leaves out names that begin so, too.
            expected = {name: len(times) for name, times in xspace.ops().items() if name[0] != "_"}
            self.assertEqual(rows, expected)
            self.assertEqual(bool(expected), options[1] != "1")


class InputStages(TestCase):
    WAITS = {"read", "decode"}

    def test_input_stages_are_what_the_requests_of_a_live_server_waited_for(self):
        _, xspace, pages = self.capture("--input-stages")
        phases = {}
        for name, events in xspace.lines().items():
            for e in events:
                if name.startswith("requests ") and "_ipl_stage_id" in e.stats:
                    phases.setdefault(e.name, []).append(e.duration_ps / 1e9)
        self.assertGreaterEqual(set(phases), self.WAITS)
        table = next(t for t in pages.page("input_pipeline_analyzer") if t["cols"] and t["cols"][0]["id"] == "opName")
        stages = {row["opName"]: row for row in harness.table_rows(table)}
        self.assertEqual({name: row["count"] for name, row in stages.items()}, {name: len(all_ms) for name, all_ms in phases.items()})
        for name, row in stages.items():
            self.assertAlmostEqual(row["timeInMs"], sum(phases[name]), delta=0.001 + 1e-6 * sum(phases[name]))
        counted = {name: len(times) for name, times in xspace.ops().items() if name[0] != "_"}
        rows = {f"{row['operation']}:{row['type']}": row["occurrences"] for row in pages.op_stats() if row["operation"] not in phases}
        self.assertEqual(rows, counted)


class InputStagesOfBatches(InputStages):
    MODEL = "batched"
    WAITS = {"read", "decode", "batch wait"}

    def start_load(self):
        return self.start(test_delays.Client, self.directory, self.server, self.MODEL, clients=4)


class Filtered(harness.TestCase):
    def test_a_process_with_a_seccomp_filter_has_no_return_probe_and_a_warning(self):
        daemon = self.start(harness.Daemon)
        server = self.start(harness.NativeServer, ["layered"], prefix=[harness.PYTHON, "-c", FILTERED], self_load=1)
        harness.wait_target(daemon, server.pid)
        self.assertRegex(pathlib.Path(f"/proc/{server.pid}/status").read_text(), r"Seccomp:\s+2")
        plan = harness.ctl(daemon, "plan", "--pid", server.pid, "--memory", "--json").json
        returns = [p for p in plan["targets"][0]["probes"] if p["at_return"]]
        self.assertEqual({p["planted"] for p in returns}, {False})
        command = harness.ctl_capture(daemon, [server.pid], self.directory / "logdir", "--memory")
        self.assertEqual(command.status, 0, command.stderr)
        self.assertEqual(command.json["memory"], [])
        self.assertGreater(command.json["ops"], 1000)
        told = [w for w in command.json["warnings"] if "seccomp filter" in w]
        self.assertEqual(len(told), 3, command.json["warnings"])
        self.assertTrue(server.running())


if __name__ == "__main__":
    harness.main()
