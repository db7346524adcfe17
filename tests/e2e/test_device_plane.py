# SPDX-License-Identifier: Apache-2.0
"""The CPU as a device, on request: HLO Op Profile, HLO Op Stats and Roofline Model show for operations what the host's table shows,
and nothing else changes but what docs/captured.md names. As root."""
import collections
import json
import os
import pathlib
import re

import harness

CTL = harness.OUT / "tfprofctl"
GOLDEN = harness.ROOT / "tests/golden"
DEVICE = "/device:TPU:0"
SAYS = "The CPU is presented as a device"
CATEGORIES = {"MatMul": "dot", "Mul": "elementwise", "AddV2": "elementwise", "BiasAdd": "elementwise", "Relu": "elementwise", "Tanh": "elementwise",
              "Softmax": "normalization", "Sum": "reduce", "Tile": "data formatting", "ReadVariableOp": "ReadVariableOp", "BatchFunction": "BatchFunction"}
DELTA_US = 0.001


def host_ops(xspace):
    """{"scope/op:Type": [times, µs]} of the operations that the host's lines show."""
    return {name: [len(all_ps), sum(all_ps) / 1e6] for name, all_ps in xspace.ops().items()}


def by_name(rows, name):
    """The rows of a page of the device as host_ops() has them. One operation is one row."""
    found = {}
    for row in rows:
        if row["category"] not in ("IDLE", "Program"):
            assert name(row) not in found, row
            found[name(row)] = [row["occurrences"], row["total_time"]]
    return found


def walk(node):
    yield node
    for child in node.get("children", []):
        yield from walk(child)


def latencies(overview):
    return next(harness.table_rows(t) for t in overview if t.get("cols") and t["cols"][0]["id"] == "percentile")


def steps(overview):
    return next(harness.table_rows(t) for t in overview if t.get("cols") and t["cols"][0]["id"] == "stepnum")


def rounded(value):
    """Sums of the same numbers differ in the last digits by the order in which threads added them."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return {k: rounded(v) for k, v in value.items()} if isinstance(value, dict) else value


class DeviceTestCase(harness.TestCase):
    def assert_sums(self, found, expected):
        self.assertEqual({name: n for name, (n, _) in found.items()}, {name: n for name, (n, _) in expected.items()})
        for name, (_, total_us) in expected.items():
            self.assertAlmostEqual(found[name][1], total_us, delta=DELTA_US, msg=name)

    def check_pages(self, page, xspace):
        """What page(tool) shows for the device is what the host's lines contain."""
        expected = host_ops(xspace)
        n, total_us = sum(n for n, _ in expected.values()), sum(us for _, us in expected.values())
        self.assertGreater(n, 0)

        rows = harness.table_rows(page("hlo_stats"))
        self.assert_sums(by_name(rows, lambda row: row["tf_op_name"]), expected)
        for row in rows:
            if row["category"] == "IDLE":
                continue
            name, _, kind = row["tf_op_name"].rpartition(":")
            self.assertEqual(row["hlo_op_name"], name)
            if kind in CATEGORIES:
                self.assertEqual(row["category"], CATEGORIES[kind])
            # What is not known is 0, and nothing is made of it.
            self.assertEqual({row[key] for key in ("model_flop_rate", "normalized_flop_rate", "measured_memory_bw", "hbm_bw", "operational_intensity")}, {0})
            self.assertEqual(row["bound_by"], "Unknown")

        profile = page("op_profile")["byProgramExcludeIdle"]
        self.assertAlmostEqual(int(profile["metrics"]["rawTime"]) / 1e6, total_us, delta=DELTA_US)
        categories = collections.Counter()
        for program in profile["children"]:
            for category in program["children"]:
                categories[category["name"]] += category["metrics"]["occurrences"]
        self.assertEqual(sum(categories.values()), n)
        for kind in CATEGORIES:
            of_kind = sum(count for name, (count, _) in expected.items() if name.endswith(f":{kind}"))
            self.assertGreaterEqual(categories[CATEGORIES[kind]], of_kind)
        leaves = {leaf["xla"]["provenance"]: leaf["metrics"] for leaf in walk(profile) if leaf.get("xla", {}).get("provenance")}
        self.assertTrue(leaves)
        for name, metrics in leaves.items():
            self.assertEqual(metrics["occurrences"], expected[name][0])
            self.assertAlmostEqual(int(metrics["rawTime"]) / 1e6, expected[name][1], delta=DELTA_US)

        whole = page("roofline_model")[0]
        self.assertEqual(whole["p"]["device_type"], "CPU, presented as a device")
        self.assertEqual({whole["p"][key] for key in ("peak_flop_rate", "peak_hbm_bw", "hbm_ridge_point")}, {"0"})
        # Each is there twice, for a switch of the page.
        rows = [row for row in harness.table_rows(whole) if row["step"] == "Total" and row["include_infeed_outfeed"]]
        found = collections.Counter()
        for row in rows:
            if row["category"] not in ("IDLE", "Program"):
                found[row["operation"]] += row["occurrences"]
                self.assertEqual((row["measured_flop_rate"], row["bound_by"]), (0, "Unknown"))
        # Operations of one name and several types are rows of one name here.
        merged = collections.Counter()
        for name, (count, _) in expected.items():
            merged[name.rpartition(":")[0]] += count
        self.assertEqual(found, merged)
        self.assertAlmostEqual(sum(row["total_time"] for row in rows if row["category"] not in ("IDLE", "Program")), total_us, delta=DELTA_US)
        return n, total_us


class Replayed(DeviceTestCase):
    """Recordings that do not change: a few requests at level 3, and batches at level 2."""

    def replay(self, name, *arguments):
        logdir = self.directory / f"{name}{'-'.join(arguments)}"
        command = harness.run(CTL, "replay", GOLDEN / f"{name}.tfp", "-o", logdir, *arguments)
        self.assertEqual(command.status, 6 if name == "given_up" else 0, command.stderr)
        file, = harness.xspace_files(logdir)
        return command, file

    def test_pages_of_the_device_have_the_times_and_counts_of_the_operations(self):
        for name in "half_plus_two", "batched":
            _, file = self.replay(name, "--device-plane")
            n, us = self.check_pages(lambda tool: harness.convert(file, tool), harness.XSpace(file))
            print(f"     {name}: {n} operations, {us:.3f} us")

    def test_the_option_only_adds_a_plane_and_a_warning(self):
        for name in "half_plus_two", "batched":
            plain, off, with_plane = (self.replay(name, *a)[1] for a in ((), ("--device-plane=off",), ("--device-plane",)))
            self.assertEqual(plain.read_bytes(), off.read_bytes())
            self.assertNotIn(DEVICE, harness.XSpace(plain).planes)
            proto = harness.XSpace(with_plane).proto
            plane, = (p for p in proto.planes if p.name == DEVICE)
            proto.planes.remove(plane)
            warning, = (w for w in proto.warnings if w.startswith(SAYS))
            proto.warnings.remove(warning)
            self.assertEqual(proto, harness.XSpace(plain).proto)

    def test_other_pages_are_unchanged_except_as_documented(self):
        _, plain = self.replay("batched")
        _, device = self.replay("batched", "--device-plane")
        pages = {tool: (harness.convert(plain, tool), harness.convert(device, tool)) for tool in (
            "framework_op_stats", "overview_page", "inference_profile", "memory_profile", "input_pipeline_analyzer")}

        def host_rows(tables):
            return sorted((row["type"], row["operation"], row["occurrences"], row["total_time"], row["total_self_time"])
                          for row in harness.table_rows(tables[0]) if row["host_or_device"] == "Host")
        before, after = pages["framework_op_stats"]
        self.assertEqual(host_rows(after), host_rows(before))
        on_device = {(f"{row['operation']}:{row['type']}"): [row["occurrences"], row["total_time"]]
                     for row in harness.table_rows(after[1]) if row["host_or_device"] == "Device"}
        self.assert_sums(on_device, host_ops(harness.XSpace(plain)))

        before, after = pages["overview_page"]
        self.assertEqual(rounded(latencies(after)), rounded(latencies(before)))
        self.assertEqual(len(latencies(after)), 6)
        self.assertGreater(len(steps(before)), 20)
        self.assertEqual(steps(after), [])
        properties = {key: value for table in after for key, value in (table.get("p") or {}).items()}
        self.assertEqual(properties["device_type"], "CPU, presented as a device")
        self.assertEqual(properties["hardware_type"], "TPU")
        self.assertTrue(any(SAYS in text for _, text in harness.diagnostics(after)))

        for tool in "inference_profile", "memory_profile":
            before, after = (rounded(page) for page in pages[tool])
            self.assertEqual(after, before)
        _, after = pages["input_pipeline_analyzer"]
        conclusions = [table["p"]["input_conclusion"] for table in after if "input_conclusion" in (table.get("p") or {})]
        self.assertTrue(all(c.startswith("No step time measured") for c in conclusions), conclusions)

    def test_a_recording_with_disabled_probes_shows_what_there_is(self):
        command, file = self.replay("given_up", "--device-plane", "--json")
        n, _ = self.check_pages(lambda tool: harness.convert(file, tool), harness.XSpace(file))
        self.assertEqual(n, command.json["ops"])
        told, = [w for w in command.json["warnings"] if "device" in w]
        self.assertTrue(told.startswith(SAYS))

    def test_an_invalid_choice_is_refused(self):
        command = harness.run(CTL, "replay", GOLDEN / "batched.tfp", "--device-plane=maybe", "-o", self.directory / "none")
        self.assertEqual(command.status, 2)
        self.assertIn("invalid value 'maybe' for --device-plane: use on or off", command.stderr)


class Live(DeviceTestCase):
    daemon_options = ()

    def setUp(self):
        super().setUp()
        self.daemon = self.start(harness.Daemon, *self.daemon_options)
        self.server = self.start(harness.NativeServer, ["layered"])
        self.load = self.start(harness.Load, self.server, model="layered", clients=2)
        self.target = harness.wait_target(self.daemon, self.server.pid)

    def test_a_capture_with_the_option_shows_operations_of_many_threads_as_a_device_and_warns(self):
        logdir, recording = self.directory / "logdir", self.directory / "a.tfp"
        command = harness.ctl_capture(self.daemon, [self.server.pid], logdir, "--device-plane", "--record", recording, duration="1s")
        self.load.stop()
        self.assertEqual(command.status, 0, command.stderr)
        self.assertEqual(len([w for w in command.json["warnings"] if w.startswith(SAYS)]), 1)
        file, = harness.xspace_files(logdir)
        xspace = harness.XSpace(file)
        self.assertEqual(len([w for w in xspace.warnings if w.startswith(SAYS)]), 1)
        self.assertGreater(len(xspace.lines(DEVICE)), 1)
        board = self.start(harness.TensorBoard, logdir)
        run, = board.runs()
        n, us = self.check_pages(lambda tool: board.page(run, tool), xspace)
        self.assertGreater(n, 1000)
        host = {f"{row['operation']}:{row['type']}": row["occurrences"] for row in board.op_stats(run) if row["host_or_device"] == "Host"}
        self.assertEqual(host, {name: count for name, (count, _) in host_ops(xspace).items()})
        print(f"     {n} operations, {us / 1e6:.3f} s, on {len(xspace.lines(DEVICE))} threads within 1 s")

        # The recording keeps that it was asked for.
        command = harness.run(CTL, "replay", recording, "-o", self.directory / "again")
        self.assertEqual(command.status, 0, command.stderr)
        self.assertRegex(command.stdout, re.compile(rf"^warning: {SAYS}", re.M))
        again, = harness.xspace_files(self.directory / "again")
        self.assertEqual(again.read_bytes(), file.read_bytes())

    def test_a_capture_without_the_option_has_no_device(self):
        plain = harness.ctl_capture(self.daemon, [self.server.pid], self.directory / "plain", duration="500ms")
        self.assertEqual(plain.status, 0, plain.stderr)
        file, = harness.xspace_files(self.directory / "plain")
        response = harness.profile(self.target["address"], duration_ms=500)
        for xspace in harness.XSpace(file), harness.response_xspace(response):
            self.assertTrue(host_ops(xspace))
            self.assertNotIn(DEVICE, xspace.planes)
            self.assertFalse([w for w in xspace.warnings if w.startswith(SAYS)])


class Recorded(Live):
    """The recorder sees operations, whatever that costs."""
    daemon_options = ("--recorder", "2", "--recorder-overhead", "100")
    test_a_capture_with_the_option_shows_operations_of_many_threads_as_a_device_and_warns = test_a_capture_without_the_option_has_no_device = None

    def test_a_snapshot_can_have_a_device(self):
        def has_kept():
            recorder = harness.ctl(self.daemon, "status", "--json").json["recorder"]
            return recorder and recorder["attached"] and recorder["kept_ns"] > 1e9
        harness.wait_until(has_kept, 20, "the recorder has kept a second")
        for option, wanted in ("--device-plane", True), ("--device-plane=off", False):
            logdir = self.directory / option
            command = harness.ctl(self.daemon, "snapshot", "--last", "500ms", "-o", logdir, option, "--json")
            # So many of them beside everything else can be more than there is room for, which it then reports.
            lost = [w for w in command.json["warnings"] if "lost" in w]
            self.assertEqual(command.status, 6 if lost else 0, command.stdout)
            file, = harness.xspace_files(logdir)
            xspace = harness.XSpace(file)
            self.assertTrue(host_ops(xspace))
            self.assertEqual(DEVICE in xspace.planes, wanted)
            self.assertEqual(len([w for w in command.json["warnings"] if w.startswith(SAYS)]), wanted)


if __name__ == "__main__":
    harness.main()
