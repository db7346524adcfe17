# SPDX-License-Identifier: Apache-2.0
"""What the pages of TensorBoard's Profile plugin show about requests and batches, by its own converters, on made-up ones."""
import collections
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # read when the converters are loaded

import harness

PROGRAM = harness.BUILD / "fixtures/requests_xspace"
CHECKER = pathlib.Path(__file__).with_name("check_xspace.py")


def rows(table):
    return [[cell.get("v") for cell in row["c"]] for row in table.get("rows") or []]


def percentile(values, percent):
    """The nearest rank."""
    return sorted(values)[max(math.ceil(len(values) * percent / 100) - 1, 0)]


class Pages(harness.TestCase):
    level = 2
    arguments = ()
    other_ops = {}
    # What the names of models and steps become on the pages.
    models_shown = {}
    steps_shown = {"POST": "POST /v1/models/alpha predict", "gRPC": "gRPC Predict", "GET": "GET /healthz"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.path = pathlib.Path(tempfile.mkdtemp(prefix="tfprofd-e2e-")) / "host.xplane.pb"
        cls.addClassCleanup(shutil.rmtree, cls.path.parent, ignore_errors=True)
        command = subprocess.run([PROGRAM, cls.path, str(cls.level), *cls.arguments], stdout=subprocess.PIPE, text=True, check=True)
        cls.truth = json.loads(command.stdout)
        cls.latencies = {cls.models_shown.get(model, model): [ns / 1e6 for ns in all_ns] for model, all_ns in cls.truth["latencies"].items()}
        cls.all = [ms for all_ms in cls.latencies.values() for ms in all_ms]

    def page(self, tool):
        return harness.convert(self.path, tool, trace_viewer_options={"resolution": 8000})

    def steps(self):
        return next(t for t in self.page("overview_page") if t["cols"] and t["cols"][0]["id"] == "stepnum")

    def models(self):
        """{model: (table of requests, table of batches)}"""
        tables = self.page("inference_profile")
        self.assertEqual(tables[0]["p"]["hasBatching"], "true")
        return {row[0]: (tables[1 + 2 * i], tables[2 + 2 * i]) for i, row in enumerate(rows(tables[0]))}

    def test_file_obeys_the_rules_of_the_pages(self):
        command = subprocess.run([sys.executable, CHECKER, self.path], capture_output=True, text=True)
        self.assertEqual((command.returncode, command.stderr), (0, ""))

    def test_overview_has_the_latencies_of_whole_requests_only(self):
        table = next(t for t in self.page("overview_page") if t["cols"] and t["cols"][0]["id"] == "percentile")
        found = {row[0]: row[-1] for row in rows(table)}
        self.assertAlmostEqual(found["Avg"], sum(self.all) / len(self.all), delta=0.001)
        for percent in (50, 75, 90, 99, 99.9):
            expected = percentile(self.all, percent)
            self.assertAlmostEqual(found[f"{percent:.1f}%"], expected, delta=0.02 * expected)

    def test_each_model_has_its_own_latencies(self):
        models = self.models()
        self.assertEqual(set(models), set(self.latencies))
        for model, (requests, _) in models.items():
            expected = self.latencies[model]
            self.assertAlmostEqual(float(requests["p"]["averageLatencyMs"]), sum(expected) / len(expected), delta=0.001)

    def test_each_request_is_a_step_that_its_phases_cover(self):
        table = self.steps()
        # The plugin leaves the first and the last one out.
        n_requests = len(self.all) - len(self.truth["latencies"]["runs of other/900"])
        self.assertEqual(len(rows(table)), n_requests + self.truth["batches"] - 2)
        input_ms = host_ms = 0
        for row in rows(table):
            columns = dict(zip((column["id"] for column in table["cols"]), row))
            if columns["stepnum"].startswith("ProcessBatch "):
                continue
            name, _, number = columns["stepnum"].rpartition(" ")
            self.assertIn(name, self.steps_shown.values())
            self.assertTrue(number.isdigit())
            self.assertLess(columns["otherTimeMs"], 0.001)
            if name == self.steps_shown["POST"]:
                # A tenth is reading and decoding.
                self.assertAlmostEqual(columns["infeedTimeMs"], columns["stepTimeMs"] / 10, delta=0.001)
                input_ms, host_ms = input_ms + columns["infeedTimeMs"], host_ms + columns["hostComputeTimeMs"]
        self.assertAlmostEqual(host_ms, 9 * input_ms, delta=0.1)

    def test_whole_batches_are_shown_with_their_sizes_and_padding(self):
        requests, batches = self.models()[self.models_shown.get("beta:2", "beta:2")]
        names = [column["id"] for column in batches["cols"]]
        found = [dict(zip(names, row)) for row in rows(batches) if row[0] != "Aggregated"]
        whole = [b for b in found if str(b["percentile"])[0].isdigit()]
        self.assertEqual(len(whole), self.truth["batches"])
        for batch in whole:
            self.assertEqual(batch["batch_size_after_padding"], 8)
            self.assertIn(batch["padding_amount"], (0, 4))
            self.assertAlmostEqual(batch["batching_delay_us"], 10, delta=0.001)  # the column is in ms
        self.assertEqual(sum(b["padding_amount"] for b in whole), self.truth["batches"] / 2 * 4)
        names = [column["id"] for column in requests["cols"]]
        sizes = {dict(zip(names, row))["batching_request_size"] for row in rows(requests) if str(row[0])[0].isdigit()}
        self.assertLessEqual(sizes, {0, 1})

    def test_phases_are_not_operations_and_operations_are_counted_once(self):
        table = self.page("framework_op_stats")[1]
        names = [column["id"] for column in table["cols"]]
        found = {(row["type"], row["operation"]): row["occurrences"] for row in (dict(zip(names, r)) for r in rows(table))}
        self.assertEqual(found, {("MatMul", "dense/MatMul"): self.truth["ops"], **self.other_ops})

    def test_trace_has_lanes_on_top_and_arrows_from_requests_to_their_runs_and_from_these_to_their_pieces(self):
        events = self.page("trace_viewer@")["traceEvents"]
        order = {e["tid"]: e["args"]["sort_index"] for e in events if e["name"] == "thread_sort_index"}
        titles = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
        lanes = {tid for tid, title in titles.items() if title.startswith("requests ")}
        self.assertEqual(len(lanes), self.truth["lanes"])
        rest = [order[tid] for tid in titles if tid not in lanes and "CPU" not in titles[tid]]
        self.assertLess(max(order[tid] for tid in lanes), min(rest))
        slices = [e for e in events if e["ph"] == "X"]
        arrows = {}
        for e in slices:
            if "bind_id" in e and (e["tid"] in lanes or not e.get("cat")):
                arrows.setdefault(e["bind_id"], []).append(e)
        linked = [(from_, to) for from_, to in (a for a in arrows.values() if len(a) == 2)
                  if from_.get("flow_out") and to.get("flow_in")]
        self.assertGreater(len(linked), 10)
        for request, link in linked:
            self.assertIn(request["tid"], lanes)
            self.assertTrue(request["name"].startswith(link["name"]))
            self.assertLessEqual(request["ts"], link["ts"])
            self.assertLessEqual(link["ts"] + link["dur"], request["ts"] + request["dur"] + 1)
        runs = [e for e in slices if e["name"] == "SessionRun" and e.get("flow_out")]
        self.assertTrue({e["bind_id"] for e in runs} & {e["bind_id"] for e in slices
                                                       if e["name"] == "ExecutorState::Process" and e.get("flow_in")})


class PagesWithOddNames(Pages):
    """What a hostile server or client calls things breaks no page and changes no number."""
    arguments = ("odd",)
    models_shown = {"alpha:1": "x" * 200 + ":1", "beta:2": "b?:\"/\\'<\x01\x7f\n&>??:", "/healthz": 'train:\x02"???',
                    "runs of other/900": "runs of o\"?\n/:'\x01\\<>&\x7f/900"}
    steps_shown = {"POST": "POST " + "x" * 106, "gRPC": 'gRPC "?(  {}', "GET": 'request train  "???'}
    other_ops = {("Mul", "train"): 3, ("Mul", "test_step"): 3, ("Mul", "TraceContext"): 3}
    ops_drawn = ("", '\x01"quoted"\t\'\\:Mul', "a??/b:c:Mul", "train:Mul", "test_step:Mul", "TraceContext:Mul")

    def test_memory_is_what_the_ops_allocated_whatever_their_names(self):
        profiles = self.page("memory_profile")["memoryProfilePerAllocator"]
        found = {name.partition(" of ")[0]: profile for name, profile in profiles.items()}
        self.assertEqual(set(found), {"cpu", "BFC"})
        self.assertEqual({name.partition(" of ")[2] for name in profiles}, {"server/100"})
        for name, blocks in self.truth["memory"].items():
            self.assertEqual(int(found[name]["profileSummary"]["peakStats"]["heapAllocatedBytes"]), max(blocks))
            used = [int(s["aggregationStats"]["heapAllocatedBytes"]) for s in found[name]["sampledTimelineSnapshots"]]
            self.assertEqual(used, [bytes for block in blocks for bytes in (block, 0)])

    def test_the_trace_has_every_op_and_at_level_three_every_slice(self):
        trace = self.page("trace_viewer")["traceEvents"]
        shown = collections.Counter(e["name"] for e in trace if e.get("ph") == "X")
        self.assertEqual(shown["MatMul"], self.truth["ops"])
        self.assertEqual({name: shown[name] for name in self.ops_drawn}, dict.fromkeys(self.ops_drawn, 3))
        self.assertEqual([name for name, n in shown.items() if len(name) > 500 and n == 3], ["x" * (64 << 10)])
        cpus = {(e["pid"], e["tid"]) for e in trace if e.get("name") == "thread_name" and e["args"]["name"].startswith("CPU ")}
        slices = [e for e in trace if e.get("ph") == "X" and (e["pid"], e["tid"]) in cpus]
        self.assertEqual((len(cpus), len(slices)), (2, self.truth["slices"]) if self.level == 3 else (0, 0))

    def test_a_real_tensorboard_serves_every_page(self):
        run = self.directory / "logdir/plugins/profile/run"
        run.mkdir(parents=True)
        (run / "host.xplane.pb").write_bytes(self.path.read_bytes())
        board = self.start(harness.TensorBoard, self.directory / "logdir")
        tools = set(board.tools("run"))
        self.assertGreaterEqual(tools, {"overview_page", "trace_viewer@", "framework_op_stats", "input_pipeline_analyzer", "memory_profile"})
        # In one order: what a page leaves for the next ones makes whether these have the first step and the last.
        pages = {tool: board.page("run", tool) for tool in sorted(tools | {"inference_profile", "pod_viewer"} - {"trace_viewer@"})}
        self.assertEqual({tool for tool, page in pages.items() if not page}, set())
        self.assertEqual(len(pages["pod_viewer"]["podStatsSequence"]["podStatsMap"]), len(rows(self.steps())))
        self.assertEqual(len([e for e in board.trace("run") if e["name"] == "MatMul"]), self.truth["ops"])


class PagesWithOddNamesAtLevelThree(PagesWithOddNames):
    level = 3


class PagesWithInputStages(Pages):
    """What requests wait for as stages, with odd names: nothing else is another number."""
    arguments = ("odd", "stages")
    models_shown, steps_shown = PagesWithOddNames.models_shown, PagesWithOddNames.steps_shown
    categories = {"read": "Demanded file read", "decode": "Preprocessing", "queue wait": "Enqueue", "batch wait": "Enqueue"}

    def phases(self):
        """{name: (how many, ms)} of the phases that the trace has."""
        found = {}
        for name, events in harness.XSpace(self.path).lines().items():
            for e in events:
                if name.startswith("requests ") and e.name in self.categories:
                    n, ms = found.get(e.name, (0, 0))
                    found[e.name] = n + 1, ms + e.duration_ps / 1e9
        return found

    def test_phases_are_not_operations_and_operations_are_counted_once(self):
        table = self.page("framework_op_stats")[1]
        names = [column["id"] for column in table["cols"]]
        found = [dict(zip(names, r)) for r in rows(table)]
        ops = {(row["type"], row["operation"]): row["occurrences"] for row in found if row["operation"] not in self.categories}
        self.assertEqual(ops, {("MatMul", "dense/MatMul"): self.truth["ops"], **PagesWithOddNames.other_ops})
        # Those that are stages are operations, too.
        self.assertEqual({row["operation"]: row["occurrences"] for row in found if row["operation"] in self.categories},
                         {name: n for name, (n, _) in self.phases().items()})

    def test_stages_are_the_phases_before_requests_run(self):
        table = next(t for t in self.page("input_pipeline_analyzer") if t["cols"] and t["cols"][0]["id"] == "opName")
        found = harness.table_rows(table)
        phases = self.phases()
        self.assertEqual({row["opName"]: (row["count"], row["category"]) for row in found},
                         {name: (n, self.categories[name]) for name, (n, _) in phases.items()})
        for row in found:
            self.assertAlmostEqual(row["timeInMs"], phases[row["opName"]][1], delta=0.001)
            self.assertEqual(row["selfTimeInMs"], row["timeInMs"])


class PagesWithDevicePlane(Pages):
    """The CPU as a device, with odd names: requests, batches and the host's operations are the same. There are no steps then."""
    arguments = ("odd", "device")
    models_shown, steps_shown, other_ops = PagesWithOddNames.models_shown, PagesWithOddNames.steps_shown, PagesWithOddNames.other_ops
    device_ops = {"dense/MatMul": "dot", "train": "elementwise", "test_step": "elementwise", "TraceContext": "elementwise",
                  "a??/b c": "elementwise", "\x01\"quoted\"\t'\\": "elementwise", "unnamed operation": "unknown", "x" * 511: "unknown"}

    test_each_request_is_a_step_that_its_phases_cover = None

    def test_there_are_no_steps(self):
        self.assertEqual(rows(self.steps()), [])

    def test_phases_are_not_operations_and_operations_are_counted_once(self):
        table = self.page("framework_op_stats")[1]
        names = [column["id"] for column in table["cols"]]
        found = [dict(zip(names, r)) for r in rows(table)]
        for side in "Host", "Device":
            ops = {(row["type"], row["operation"]): row["occurrences"] for row in found if row["host_or_device"] == side and row["type"] != "Unknown"}
            self.assertEqual(ops, {("MatMul", "dense/MatMul"): self.truth["ops"], **self.other_ops}, side)
        # On the device's side there are also those whose names the host's table does not take for operations.
        self.assertEqual(sorted(row["occurrences"] for row in found if row["type"] == "Unknown"), [3] * 4)

    def test_operations_of_the_device_are_counted_once_whatever_their_names(self):
        table = self.page("hlo_stats")
        names = [column["id"] for column in table["cols"]]
        found = {row["hlo_op_name"]: (row["category"], row["occurrences"]) for row in (dict(zip(names, r)) for r in rows(table))
                 if row["category"] != "IDLE"}
        times = {row["hlo_op_name"]: row["total_time"] for row in (dict(zip(names, r)) for r in rows(table))}
        expected = {name: (category, self.truth["ops"] if category == "dot" else 3) for name, category in self.device_ops.items()}
        self.assertEqual(found, expected)
        # One is within the other.
        self.assertAlmostEqual(times["train"], 1500, delta=0.001)
        self.assertAlmostEqual(times["test_step"], 375, delta=0.001)
        program, = self.page("op_profile")["byProgramExcludeIdle"]["children"]
        profile = {op["name"]: (op["metrics"]["occurrences"], int(op["metrics"]["rawTime"]) / 1e6)
                   for category in program["children"] for op in category["children"]}
        self.assertEqual({name: n for name, (n, _) in profile.items()}, {name: n for name, (_, n) in expected.items()})
        for name, (_, us) in profile.items():
            self.assertAlmostEqual(us, times[name], delta=0.001, msg=name)


class PagesOfLevelOne(Pages):
    """Level 1 has no operations and no pieces; requests and batches are the same."""
    level = 1

    def test_there_are_no_operations(self):
        self.assertEqual(rows(self.page("framework_op_stats")[1]), [])

    test_phases_are_not_operations_and_operations_are_counted_once = None
    test_trace_has_lanes_on_top_and_arrows_from_requests_to_their_runs_and_from_these_to_their_pieces = None


if __name__ == "__main__":
    harness.main()
