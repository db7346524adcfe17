# SPDX-License-Identifier: Apache-2.0
"""Every page, of models of every kind, beside those that TensorFlow's own profiler makes of the same requests. As root.

Both profilers see one window with all of a bounded load in it: what ran, ran in both. Times differ by what the two cost each other, which
for an op of 5 us is some percent, and by what comes between the end of an op in one and in the other."""
import os
import pathlib
import re
import statistics
import time

import harness
import test_lifecycle

# A window is as long as its load by what the warm-up took, twice, and this.
WINDOW_MS, WINDOW_MAX_MS = 1000, 6000
DELAY_NS = 1_000_000_000
ATTEMPTS = 3
WIDTH = 64
MS = 1_000_000
RUNS = "plugins/profile"
# Of ops that take long the tables are this near each other, and so are as many of the rows that have as much of the time.
TIME_SHARE, LARGE, LARGE_WITHIN = 0.01, 0.01, 0.9
# Of short ones, since what the other profiler does after its own end is in ours.
TIME_SHARE_SHORT = 0.05
# So are the executions in which no thread lost its CPU between the two ends, which are all but as many.
SLICE_PS, SLICES = 100_000_000, 0.01
# So are a page's latencies and steps those of the clients, but for what is not the server's.
LATENCY_SHARE, CLIENT_MS = 0.05, 0.1
PERCENTS = (50, 75, 90)
# The type of iterators. Before one of them begins for the other profiler, that makes its name, which is within ours.
ITERATOR, NAME_MS = "Dataset", 0.003
LATE = re.compile(r"The window began [\d.]+ s after")
# Readers leave the first step and the last out.
STEPS_LEFT_OUT = 2
BESIDE_OPS = {"ExecutorState::Process", "ExecutorDoneCallback", "SessionRun", "FunctionRun", "ProcessBatch", "handle"}
STEP_NUMBER = re.compile(r" \d+$")
# This op runs, and the in-process profiler does not show it.
ALONE = {("_Retval", "output_retval_RetVal")}
WARM_UP = 40
MODULE = "module_0007.evil.cpu_after_optimizations.hlo.pb"


def by_op(rows):
    return {(row["type"], row["operation"]): row for row in rows}


def iterators(page):
    """The tables of input stages: {name: row}."""
    table = next(t for t in page if t["cols"] and t["cols"][0]["id"] == "opName")
    return {row["opName"]: row for row in harness.table_rows(table)}


def without(proto, drop):
    """A copy without the events of such names."""
    copy = type(proto)()
    copy.CopyFrom(proto)
    for plane in copy.planes:
        ids = {id for id, metadata in plane.event_metadata.items() if drop(metadata.name)}
        for line in plane.lines:
            kept = [event for event in line.events if event.metadata_id not in ids]
            del line.events[:]
            line.events.extend(kept)
    return copy


class Compared(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.daemon = cls.start_shared(harness.Daemon)

    def load(self, server, model, requests, rows, width):
        rest = isinstance(server, harness.NativeServer)
        return self.start(harness.LoadClient, server.port, rest, self.directory / "log", "--model", model, "--width", width, "--rows", rows,
                          "--clients", 2, "--count", requests).finish()

    def capture(self, make, model, requests, rows, width, arguments, environment):
        """Captures so many requests by both: .log is the clients', .ours and .theirs are XSpaces, .pages their pages."""
        self.dump = self.directory / "hlo"
        self.dump.mkdir(exist_ok=True)
        server = self.start(make, [model], profiler=True, arguments=arguments,
                            prefix=["env", f"XLA_FLAGS=--xla_dump_to={self.dump} --xla_dump_hlo_as_proto", *environment])
        target = harness.wait_target(self.daemon, server.pid)
        harness.read_files(self.daemon, server)
        # The first runs are slow: the second half of the warm-up shows how long a request takes.
        self.load(server, model, WARM_UP // 2, rows, width)
        begun = time.monotonic()
        self.load(server, model, WARM_UP // 2, rows, width)
        expected_ms = (time.monotonic() - begun) * 1000 * requests / (WARM_UP // 2)
        duration_ms = min(int(WINDOW_MS + 2 * expected_ms), WINDOW_MAX_MS)
        at = time.time_ns() + DELAY_NS
        request = harness.profile_request(duration_ms=duration_ms, level=3, start_timestamp_ns=at)
        calls = [harness.rpc(address, "Profile", request, harness.profiler_service().ProfileResponse)
                 for address in (target["address"], server.profiler_address)]
        time.sleep(max(0, at / 1e9 + 0.3 - time.time()))
        self.assertGreater(time.time_ns(), at)
        self.log = self.load(server, model, requests, rows, width)
        in_time = time.time_ns() - at < (duration_ms - 200) * MS
        self.assertEqual(len(self.log), requests)
        self.ours, self.theirs = (harness.response_xspace(future.result(120)) for _, future in calls)
        for channel, _ in calls:
            channel.close()
        server.stop()
        if not in_time:
            raise harness.Disturbed(f"the load did not end within a window of {duration_ms} ms")
        if late := [w for w in self.ours.warnings if LATE.match(w)]:
            raise harness.Disturbed(late[0])
        # What was lost is a failure, and so is everything else that the capture warns of.
        self.assertEqual([w for w in self.ours.warnings if "XLA modules are not shown: none has been written" not in w], [])
        self.assertEqual(self.ours.errors, [])
        self.logdir = pathlib.Path(self.directory, f"logdir-{at}")
        self.pages = {}
        for name, xspace in (("ours", self.ours), ("theirs", self.theirs)):
            path = self.logdir / RUNS / name / "host.xplane.pb"
            path.parent.mkdir(parents=True)
            path.write_bytes(self.shown(name, xspace.proto).SerializeToString())
            self.pages[name] = harness.Pages(path)

    def shown(self, name, proto):
        return proto

    def compare(self, make, model, requests, rows=1, width=WIDTH, batches=False, alone=(), bounds=(), are_long=False, arguments=(), environment=()):
        """All that is the same for every model. alone: ops that the in-process profiler does not show; bounds: that only launch
        something, whose ends are not seen."""
        def attempt(_):
            self.capture(make, model, requests, rows, width, arguments, environment)
            self.op_stats = {name: by_op(pages.op_stats()) for name, pages in self.pages.items()}
            self.check_op_counts(alone)
            self.check_op_sums()
            self.check_overview(model, make is harness.NativeServer)
            self.check_steps(requests, batches)
            self.check_memory()
            self.check_trace(requests)
            self.check_op_times(alone, bounds, are_long)
            self.check_latencies()
        harness.retry_times(ATTEMPTS, attempt)

    def assert_time(self, found, expected, delta, what):
        """Two measurements of one time: what else the machine does can come between them."""
        if not abs(found - expected) <= delta:
            raise harness.Disturbed(f"{what}: {found}, not {expected} within {delta}")

    def check_op_counts(self, alone):
        ours, theirs = self.op_stats["ours"], self.op_stats["theirs"]
        self.assertGreater(len(theirs), 4)
        counts = [{key: row["occurrences"] for key, row in rows.items() if key not in alone} for rows in (ours, theirs)]
        self.assertEqual(*counts)
        self.assertEqual({row["host_or_device"] for row in ours.values()}, {"Host"})

    def named_ops(self, xspace):
        """The page has no row for names that begin with _."""
        return {name: times for name, times in xspace.ops().items() if name[0] != "_"}

    def check_op_sums(self):
        """The page's times are the trace's."""
        shown = sum(row["total_time"] for key, row in self.op_stats["ours"].items() if key[0] != ITERATOR)
        self.assertAlmostEqual(shown, sum(map(sum, self.named_ops(self.ours).values())) / 1e6, delta=0.001 * shown)

    def check_op_times(self, alone, bounds, are_long):
        ours, theirs = self.op_stats["ours"], self.op_stats["theirs"]
        mine, other = self.named_ops(self.ours), self.named_ops(self.theirs)
        pairs = [pair for name, durations in other.items() if not name.endswith(bounds) for pair in zip(mine[name], durations)]
        kept = [(a, b) for a, b in pairs if abs(a - b) <= SLICE_PS]
        ratio, n_split = sum(a for a, _ in kept) / sum(b for _, b in kept), len(pairs) - len(kept)
        print(f"     time of {len(pairs)} ops beside the in-process profiler's: {(ratio - 1) * 100:+.2f} %, but for {n_split}"
              f" that lost a CPU between the two ends")
        self.assert_time(n_split, 0, SLICES * len(pairs), "ops that lost a CPU between the two ends")
        self.assert_time(ratio, 1, TIME_SHARE_SHORT, "ratio of the times")
        for what in "total_time", "total_self_time":
            sums = [sum(row[what] for key, row in rows.items() if key not in alone) for rows in (ours, theirs)]
            large = [ours[key][what] / row[what] - 1 for key, row in theirs.items() if row[what] > LARGE * sums[1]]
            print(f"     {what} of all: {(sums[0] / sums[1] - 1) * 100:+.2f} %; {len(large)} large ones {min(large) * 100:+.2f} to {max(large) * 100:+.2f} %")
            self.assert_time(sums[0] / sums[1], 1, TIME_SHARE if are_long else TIME_SHARE_SHORT, what)
            if are_long:
                off = sum(abs(error) > TIME_SHARE for error in large)
                self.assert_time(off, 0, (1 - LARGE_WITHIN) * len(large), f"rows of {what} that are not as near each other: {large}")

    def check_overview(self, model, rest):
        tables = self.pages["ours"].page("overview_page")
        latencies = next(t for t in tables if t["cols"] and t["cols"][0]["id"] == "percentile")
        self.latencies = {row["percentile"]: row["totalTimeMs"] for row in harness.table_rows(latencies)}
        properties = {key: value for table in tables for key, value in (table.get("p") or {}).items()}
        self.assertEqual([properties[key] for key in ("host_count", "device_type", "host_tf_op_percent", "device_tf_op_percent")],
                         ["1", "CPU", "100.0%", "0.0%"])
        profile = self.pages["ours"].page("inference_profile")
        name, = [row["model_name"] for row in harness.table_rows(profile[0])]
        # Python's gRPC reports no model.
        self.assertIn(model if rest else "Predict", name)
        self.assertAlmostEqual(float(profile[1]["p"]["averageLatencyMs"]), self.latencies["Avg"], delta=0.002)

    def check_latencies(self):
        measured = sorted((e["arrive_ns"] - e["send_ns"]) / MS for e in self.log)
        self.assert_latency(self.latencies["Avg"], statistics.mean(measured), statistics.mean(measured), "average")
        for percent in PERCENTS:
            # The rank is rounded one way or the other.
            at = len(measured) * percent // 100
            self.assert_latency(self.latencies[f"{percent:.1f}%"], measured[max(at - 1, 0)], measured[at], f"{percent} %")

    def assert_latency(self, found, low, high, what):
        print(f"     latency, {what}: {found:.3f} ms, clients {low:.3f} to {high:.3f}")
        if not (1 - LATENCY_SHARE) * low - CLIENT_MS <= found <= (1 + LATENCY_SHARE) * high + CLIENT_MS:
            raise harness.Disturbed(f"latency, {what}: {found:.3f} ms, clients {low:.3f} to {high:.3f}")

    def check_steps(self, requests, batches):
        page = self.pages["ours"].page("input_pipeline_analyzer")
        steps = harness.table_rows(next(t for t in page if t["cols"] and t["cols"][0]["id"] == "stepnum"))
        own = [step for step in steps if not step["stepnum"].startswith("ProcessBatch ")]
        if not batches:
            self.assertEqual(len(own), requests - STEPS_LEFT_OUT)
        self.assertEqual(batches, len(own) < len(steps))
        for step in own:
            self.assertAlmostEqual(step["stepTimeMs"], step["infeedTimeMs"] + step["hostComputeTimeMs"] + step["otherTimeMs"], delta=0.002)
            self.assertLess(step["otherTimeMs"], 0.01)
        # Requests are distinguished by their numbers: a step is as long as its request.
        requests_ms = {str(e.stats["step_num"]): e.duration_ps / 1e9 for e in self.roots()}
        for step in own:
            self.assertAlmostEqual(step["stepTimeMs"], requests_ms[step["stepnum"].rpartition(" ")[2]], delta=0.002)
        average = next(t["p"] for t in page if "steptime_ms_average" in (t.get("p") or {}))["steptime_ms_average"]
        self.assertAlmostEqual(float(average), statistics.mean(step["stepTimeMs"] for step in steps), delta=0.051)
        self.check_pod(steps)

    def roots(self):
        return [e for e in self.ours.events() if e.stats.get("_r") == -1]

    def check_pod(self, steps):
        """It has the same steps, divided alike."""
        pod = self.pages["ours"].page("pod_viewer")
        self.assertEqual(pod["deviceType"], "CPU")
        number = {e["name"]: str(e["id"]) for e in pod["stepBreakdownEvents"]}
        found = [core for step in pod["podStatsSequence"]["podStatsMap"] for core in step["podStatsPerCore"].values()]
        # Without TensorBoard around it the page has the first and the last one, too.
        self.assertEqual(len(found), len(steps) + STEPS_LEFT_OUT)
        for core, step in zip(found[1:-1], steps):
            parts = {name: core["stepBreakdownUs"][number[name]] / 1000 for name in number}
            self.assertAlmostEqual(core["totalDurationUs"] / 1000, step["stepTimeMs"], delta=0.002)
            self.assertAlmostEqual(sum(parts.values()), step["stepTimeMs"], delta=0.002)
            self.assertAlmostEqual(parts["Input"], step["infeedTimeMs"], delta=0.002)
            self.assertAlmostEqual(parts["Host compute"], step["hostComputeTimeMs"], delta=0.002)

    def check_memory(self):
        events = sorted((e for e in self.ours.events() if e.name in ("MemoryAllocation", "MemoryDeallocation")), key=lambda e: e.start_ps)
        self.assertTrue(events)
        for e, before in zip(events[1:], events):
            size = e.stats["allocation_bytes"] * (1 if e.name == "MemoryAllocation" else -1)
            if e.stats["allocator_name"] == before.stats["allocator_name"]:
                self.assertEqual(e.stats["bytes_allocated"], before.stats["bytes_allocated"] + size)
        profiles = self.pages["ours"].page("memory_profile")["memoryProfilePerAllocator"]
        self.assertEqual(set(profiles), {e.stats["allocator_name"] for e in events})
        for name, profile in profiles.items():
            self.assert_memory_page(profile, self.ours, [e for e in events if e.stats["allocator_name"] == name])

    def check_trace(self, requests):
        """Every request, op and piece is drawn, once, as long as it is, and so are the arrows: from each request to its work."""
        slices = [e for e in self.pages["ours"].trace() if e.get("ph") == "X"]
        self.assertEqual(len(self.roots()), requests)
        drawn, kept = {}, {}
        for e in slices:
            # A step has its number behind its name.
            drawn.setdefault(STEP_NUMBER.sub("", e["name"]), []).append(e["dur"])
        for e in self.ours.events():
            name = e.name.rpartition(":")[2] if harness.OP_NAME.fullmatch(e.name) else e.name
            kept.setdefault(name, []).append(e.duration_ps / 1e6)
        names = {name.rpartition(":")[2] for name in self.ours.ops()} | {e.name for e in self.roots()} | BESIDE_OPS & set(kept)
        self.assertEqual({name: len(drawn.get(name, ())) for name in names}, {name: len(kept[name]) for name in names})
        for name in names:
            self.assertAlmostEqual(sum(drawn[name]), sum(kept[name]), delta=0.001 * len(kept[name]), msg=name)
        starts = {e["bind_id"]: e for e in slices if e.get("flow_out")}
        ends = {e["bind_id"]: e for e in slices if e.get("flow_in")}
        requests_named = {root.name for root in self.roots()}
        linked = [key for key, e in starts.items() if key in ends and STEP_NUMBER.sub("", e["name"]) in requests_named]
        self.assertEqual(len(linked), requests)
        for key in linked:
            self.assertLessEqual(starts[key]["ts"], ends[key]["ts"])


class Pages(Compared):
    def test_a_model_of_small_layers_on_the_native_server(self):
        self.compare(harness.NativeServer, "layered", 200, 64)

    def test_an_encoder_on_the_python_server_which_marks_spans(self):
        requests = 20
        self.compare(harness.GrpcServer, "encoder", requests, 40, alone=ALONE, are_long=True, arguments=["--spans"],
                     environment=[f"TFPROF_LIBRARY={harness.OUT / 'libtfprof.so'}"])
        # None of them is an op, and none a step, since requests are seen.
        spans = self.ours.events("span handle")
        self.assertEqual(sorted(e.stats["step_num"] for e in spans), list(range(WARM_UP + 1, WARM_UP + requests + 1)))
        self.assertEqual([e.stats["request_id"] for e in spans], [e.stats["step_num"] for e in spans])

    def test_a_model_that_batches(self):
        self.compare(harness.NativeServer, "batched", 200, width=0, batches=True)

    def test_a_model_that_xla_compiles_has_its_module_on_the_viewers(self):
        rows = 256
        self.compare(harness.NativeServer, "compiled", 100, rows)
        # XLA compiled it before the window: the in-process profiler does not know of it any more.
        self.board = self.start(harness.TensorBoard, self.logdir)
        self.assertEqual({"graph_viewer", "memory_viewer"} - set(self.board.tools("ours")), set())
        files = sorted(self.dump.glob("*.cpu_after_optimizations.hlo.pb"))
        self.assertEqual(len(files), 1)
        plane, = [p for p in self.ours.proto.planes if p.name == "/host:metadata"]
        metadata, = plane.event_metadata.values()
        self.assertEqual(metadata.stats[0].bytes_value, files[0].read_bytes())
        module = self.board.get("module_list", run="ours")[1].decode()
        self.assertEqual(module, metadata.name)
        host = self.board.hosts("ours", "memory_viewer")[-1]
        memory = self.board.get_json("data", run="ours", tag="memory_viewer", host=host, module_name=module, memory_space="0")
        mib = 1 << 20
        self.assertEqual(memory["entryComputationParametersMib"], (rows * WIDTH + 4 * WIDTH * WIDTH) * 4 / mib)
        self.assertEqual(memory["maybeLiveOutMib"], rows * WIDTH * 4 / mib)
        self.assertGreater(memory["peakHeapMib"], memory["entryComputationParametersMib"])
        status, graph = self.board.get("data", run="ours", tag="graph_viewer", host=host, module_name=module, type="short_txt")
        self.assertEqual((status, graph.count(b" dot(")), (200, 4))
        self.assertIn(f"f32[{rows},{WIDTH}]".encode(), graph)

    def test_a_model_with_a_pipeline_of_tf_data_has_its_iterators_as_input_stages(self):
        requests, rows = 60, 16
        self.compare(harness.NativeServer, "pipeline", requests, rows, bounds=(":MakeIterator", ":IteratorGetNext"))
        ours, theirs = (iterators(self.pages[run].page("input_pipeline_analyzer")) for run in ("ours", "theirs"))
        self.assertEqual({name: (row["count"], row["category"]) for name, row in ours.items()},
                         {name: (row["count"], row["category"]) for name, row in theirs.items()})
        self.assertEqual(ours["Iterator::Root"]["count"], requests)
        self.assertGreater(ours["Iterator::Root::MapAndBatch::TensorSlice"]["count"], requests * rows)
        for name, row in theirs.items():
            allowed = TIME_SHARE_SHORT * row["timeInMs"] + NAME_MS * row["count"]
            self.assertAlmostEqual(ours[name]["timeInMs"], row["timeInMs"], delta=allowed, msg=name)


class OneDnn(Compared):
    """Ops as they are on CPUs that TensorFlow takes oneDNN's ops for."""

    def shown(self, name, proto):
        # For the in-process profiler's page an allocation of oneDNN's allocator is one more execution of its op.
        return without(proto, lambda event: event.startswith("Memory")) if name == "theirs" else proto

    def test_an_encoder_on_the_python_server(self):
        self.compare(harness.GrpcServer, "encoder", 20, 16, alone=ALONE, environment=["TF_ENABLE_ONEDNN_OPTS=1"])
        self.assertIn("_MklMatMul", {name.rpartition(":")[2] for name in self.ours.ops()})


class Modules(harness.TestCase):
    """What the directory of XLA_FLAGS can hold besides modules is left out, and nobody's file is read through it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.daemon = cls.start_shared(harness.Daemon)

    def capture(self, flags, prepare, cwd=None):
        """The modules that a capture has, and its warnings of them. prepare makes the files once the process is there, which has the names of
        the runtime's functions."""
        prefix = ["env", *(["--chdir", cwd] if cwd else []), *([f"XLA_FLAGS={flags}"] if flags else [])]
        server = self.start(harness.Process, "one_program", [*prefix, test_lifecycle.FIXTURES / "one_program"])
        server.wait_ready(lambda: server.line("ready"))
        harness.wait_target(self.daemon, server.pid)
        prepare()
        found = harness.ctl_capture(self.daemon, [server.pid], self.directory / f"logdir-{time.time_ns()}", duration="200ms")
        self.assertIn(found.status, (0, 6), found.stderr)
        # It does not keep the daemon from its work.
        self.assertTrue(self.daemon.running())
        server.stop()
        return found.json["modules"], [w for w in found.json["warnings"] if "modules" in w]

    @staticmethod
    def module(name, number):
        """An xla.HloProto of this name and number."""
        inner = b"\x0a" + bytes([len(name)]) + name + b"\x28" + bytes([number])
        return b"\x0a" + bytes([len(inner)]) + inner

    def test_a_server_that_writes_no_modules_has_no_warning_about_them(self):
        for flags in (None, "--xla_cpu_enable_fast_math=false", "--xla_dump_to=-"):
            self.assertEqual(self.capture(flags, lambda: None), ([], []), flags)

    def test_complete_modules_of_the_process_are_read_in_the_order_of_their_files(self):
        dump = self.directory / "dump"
        dump.mkdir()

        def prepare():
            for number, name in ((2, b"second"), (1, b"first"), (2, b"twin")):
                (dump / f"module_{number:04}.{name.decode()}.cpu_after_optimizations.hlo.pb").write_bytes(self.module(name, number))
            (dump / "module_0001.first.before_optimizations.hlo.pb").write_bytes(self.module(b"before", 1))
            (dump / "module_0001.first.ir-with-opt.ll").write_bytes(b"ll")
        self.assertEqual(self.capture(f"--xla_dump_to={dump}", prepare), (["first(1)", "second(2)", "twin(3)"], []))

    def test_a_relative_directory_is_resolved_for_the_process(self):
        (self.directory / "here").mkdir()
        modules, warnings = self.capture("--xla_dump_to=here", lambda: (self.directory / "here" / MODULE).write_bytes(self.module(b"m", 1)),
                                         cwd=self.directory)
        self.assertEqual((modules, warnings), (["m(1)"], []))

    def test_files_that_are_not_the_processs_own_modules_are_left_out_with_a_warning(self):
        dump = self.directory / "dump"
        good = self.module(b"m", 1)

        def link():
            (self.directory / "target").write_bytes(good)
            (dump / MODULE).symlink_to(self.directory / "target")

        def foreign():
            (dump / MODULE).write_bytes(good)
            os.chown(dump / MODULE, 4242, 4242)

        def large():
            with open(dump / MODULE, "wb") as file:
                file.truncate((16 << 20) + 1)

        for prepare, what in ((link, "does not belong to the process's own user"), (foreign, "does not belong to the process's own user"),
                              (lambda: os.mkfifo(dump / MODULE), "does not belong to the process's own user"),
                              (lambda: (dump / MODULE).mkdir(), "does not belong to the process's own user"),
                              (lambda: (dump / MODULE).write_bytes(good[:-1]), "incomplete, or not written by XLA"),
                              (lambda: (dump / MODULE).write_bytes(b""), "incomplete, or not written by XLA"),
                              (lambda: (dump / MODULE).write_bytes(self.module(b"../../up", 1)), "its module's name is not one of XLA's"),
                              (large, "too large")):
            dump.mkdir()
            modules, (warning,) = self.capture(f"--xla_dump_to={dump}", prepare)
            self.assertEqual(modules, [])
            self.assertRegex(warning, rf": 1 XLA modules are not shown: .*{what}")
            harness.run("rm", "-r", dump)

    def test_modules_of_an_earlier_process_are_ignored(self):
        dump = self.directory / "dump"
        dump.mkdir()
        (dump / MODULE).write_bytes(self.module(b"m", 1))
        time.sleep(1)
        modules, (warning,) = self.capture(f"--xla_dump_to={dump}", lambda: None)
        self.assertEqual(modules, [])
        self.assertIn("1 modules in its XLA dump directory are not shown: they are older than the process", warning)

    def test_a_directory_that_cannot_be_opened_is_explained(self):
        outside, foreign = self.directory / "outside", self.directory / "foreign"
        outside.mkdir()
        foreign.mkdir()
        (foreign / MODULE).write_bytes(self.module(b"m", 1))
        os.chown(foreign, 4242, 4242)
        (self.directory / "away").symlink_to(outside)
        sentence = "does not exist, or does not belong to the process's own user"
        for flags, what, cwd in ((f"--xla_dump_to={self.directory}/none", sentence, None), (f"--xla_dump_to={foreign}", sentence, None),
                                 ("--xla_dump_to=../outside", sentence, self.directory / "away"),
                                 (str(self.directory / "flags"), "names a file", None)):
            (self.directory / "flags").write_text("")
            modules, (warning,) = self.capture(flags, lambda: None, cwd=cwd)
            self.assertEqual(modules, [])
            self.assertIn(what, warning)

    def test_two_processes_that_share_a_directory_share_its_modules(self):
        dump = self.directory / "dump"
        dump.mkdir()
        servers = [self.start(harness.NativeServer, ["half_plus_two"], prefix=["env", f"XLA_FLAGS=--xla_dump_to={dump}"], self_load=1, http=False)
                   for _ in range(2)]
        for server in servers:
            harness.wait_target(self.daemon, server.pid)
        (dump / MODULE).write_bytes(self.module(b"m", 1))
        found = harness.ctl_capture(self.daemon, [server.pid for server in servers], self.directory / "logdir", duration="200ms")
        self.assertEqual(found.json["modules"], ["m(1)"])


if __name__ == "__main__":
    harness.main()
