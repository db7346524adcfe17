# SPDX-License-Identifier: Apache-2.0
"""Functions that TensorFlow's model server has beside TensorFlow's own: its handlers are requests, and its sessions batch."""
import collections
import json
import re
import signal

import harness

SERVER = harness.BUILD / "fixtures/tensorflow_model_server"
HANDLERS = {"HttpRestApiHandler::ProcessRequest": "half_plus_two", "PredictionService::Predict": "a_model",
            "PredictionService::Classify": "batched_model", "PredictionService::MultiInference": None}


def inside(inner, outer):
    return outer.start_ps <= inner.start_ps and inner.start_ps + inner.duration_ps <= outer.start_ps + outer.duration_ps


def is_whole(event):
    return "cut" not in event.stats and "end" not in event.stats


class Serving(harness.TestCase):
    def capture(self, level):
        daemon = self.start(harness.Daemon)
        server = self.start(harness.Process, "serving", [SERVER])
        server.wait_ready(lambda: server.line("ready"))
        address = harness.wait_target(daemon, server.pid)["address"]
        xspace = harness.response_xspace(harness.profile(address, duration_ms=1500, level=level))
        return daemon, server, xspace

    def test_handlers_are_found_by_name_and_contain_their_runs(self):
        daemon, server, xspace = self.capture(2)
        plan = harness.ctl(daemon, "plan", "--pid", server.pid, "--json").json
        functions = " ".join(p["function"] for p in plan["targets"][0]["probes"] if p["planted"])
        for name in ("HttpRestApiHandler::ProcessRequest", "PredictionServiceImpl::Predict", "PredictionServiceImpl::Classify",
                     "PredictionServiceImpl::MultiInference", "RecordModelRequestCount", "ToGRPCStatus", "AddTask",
                     "BatchingSession::ProcessBatch"):
            self.assertIn(name, functions)
        counts, models = collections.Counter(), collections.defaultdict(set)
        for line in xspace.lines().values():
            handlers = [(m[1], m[2], e) for e in line if (m := re.fullmatch(r"(\w+::\w+)(?: \((\S+)\))?", e.name)) and m[1] in HANDLERS]
            batches = [e for e in line if e.name == "ProcessBatch"]
            runs = [e for e in line if e.name == "SessionRun" and is_whole(e)]
            for name, model, event in handlers:
                counts[name] += 1
                models[name].add(model)
                held = [r for r in runs if inside(r, event)]
                if is_whole(event):
                    expected = {"PredictionService::Classify": 0, "PredictionService::MultiInference": 2}.get(name, 1)
                    self.assertEqual(len(held), expected, event)
            for event in filter(is_whole, batches):
                counts["ProcessBatch"] += 1
                self.assertEqual(len([r for r in runs if inside(r, event)]), 1)
            # A batch has its other name where it is seen to be processed as a whole.
            outer = [e for _, _, e in handlers] + [e for e in line if e.name in ("batch", "ProcessBatch")]
            self.assertFalse([r for r in runs if not any(inside(r, e) for e in outer) and r.start_ps > 5e9], line[:3])
        print(f"     {dict(counts)}")
        for name, model in HANDLERS.items():
            self.assertGreater(counts[name], 50)
            # A handler that the window's end truncates has not reported its model.
            expected = {model, "x" * 96 + "..."} if name.startswith("Http") else {model}
            self.assertEqual(models[name] - {None}, expected - {None})
        self.assertGreater(counts["ProcessBatch"], 50)
        # Only what an edge of the window cuts is no whole one: no end is missing.
        self.assertFalse([e for e in xspace.events() if "end" in e.stats and re.match(r"\w+::", e.name)])
        self.assertFalse([w for w in xspace.warnings if "batch" in w and "not shown" not in w], xspace.warnings)
        server.send(signal.SIGTERM)
        server.wait(10)
        self.assertTrue(server.line(r"rest \d+ grpc \d+ batched \d+ batches \d+"))

    def test_each_handler_is_a_request_with_its_runs_and_batches(self):
        daemon = self.start(harness.Daemon)
        server = self.start(harness.Process, "serving", [SERVER])
        server.wait_ready(lambda: server.line("ready"))
        harness.wait_target(daemon, server.pid)
        path = self.directory / "requests.ndjson"
        command = harness.ctl_capture(daemon, [server.pid], self.directory / "log", "--requests", path, duration="1s")
        self.assertEqual(command.status, 0, command.stderr)
        requests = [json.loads(line) for line in path.read_text().splitlines()]
        whole = [r for r in requests if not (r["cut_start"] or r["cut_end"] or r["lost"])]
        self.assertGreater(len(whole), 200)
        self.assertEqual({r["protocol"] for r in requests}, {"handler"})
        models = collections.Counter(r["model"] for r in whole)
        self.assertLessEqual({"half_plus_two", "a_model", "batched_model"}, set(models))
        for r in whole:
            self.assertEqual(sum(r["phases"].values()), r["latency_ns"], r)
            self.assertEqual(r["attribution"], "exact")
            for run in r["runs"]:
                self.assertTrue(r["start_ns"] <= run["start_ns"] <= run["end_ns"] <= r["end_ns"], r)
            if r["model"] == "a_model":
                self.assertEqual((len(r["runs"]), r["batches"]), (1, []))
            # What it adds to a batch is run by the batch's thread.
            if r["model"] == "batched_model":
                self.assertEqual(r["runs"], [])
                self.assertTrue(r["batches"])
        # Nothing of it is looked for at sockets, which every process would pay for.
        plan = harness.ctl(daemon, "plan", "--pid", server.pid, "--json").json
        self.assertFalse([cost for cost in plan["costs"] if "socket" in cost["unit"] or "system call" in cost["unit"]])
        print(f"     {len(whole)} requests: {dict(models)}")

    def test_handlers_are_not_searched_in_programs_of_another_runtime(self):
        daemon = self.start(harness.Daemon)
        server = self.start(harness.NativeServer, ["half_plus_two"])
        harness.wait_target(daemon, server.pid)
        plan = harness.ctl(daemon, "plan", "--pid", server.pid, "--json").json
        self.assertFalse([p for p in plan["targets"][0]["probes"] if re.search("RestApi|PredictionService|RecordModel", p["symbol"])])
        self.assertFalse([cost for cost in plan["costs"] if cost["unit"] == "request"])


if __name__ == "__main__":
    harness.main()
