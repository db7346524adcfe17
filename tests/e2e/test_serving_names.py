"""Functions that TensorFlow's model server has beside TensorFlow's own: its handlers are requests, and its sessions batch."""
import collections
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

    def test_handlers_are_found_by_their_names_and_hold_their_runs(self):
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
            outer = [e for _, _, e in handlers] + batches
            self.assertFalse([r for r in runs if not any(inside(r, e) for e in outer) and r.start_ps > 5e9], line[:3])
        print(f"     {dict(counts)}")
        for name, model in HANDLERS.items():
            self.assertGreater(counts[name], 50)
            # A handler that the window's end cuts never told its model.
            expected = {model, "x" * 96 + "..."} if name.startswith("Http") else {model}
            self.assertEqual(models[name] - {None}, expected - {None})
        self.assertGreater(counts["ProcessBatch"], 50)
        # Only what an edge of the window cuts is no whole one: no end is missing.
        self.assertFalse([e for e in xspace.events() if "end" in e.stats and re.match(r"\w+::", e.name)])
        self.assertFalse([w for w in xspace.warnings if "batch" in w and "not shown" not in w], xspace.warnings)
        server.send(signal.SIGTERM)
        server.wait(10)
        self.assertTrue(server.line(r"rest \d+ grpc \d+ batched \d+ batches \d+"))

    def test_handlers_of_another_runtimes_program_are_not_looked_for(self):
        daemon = self.start(harness.Daemon)
        server = self.start(harness.NativeServer, ["half_plus_two"])
        harness.wait_target(daemon, server.pid)
        plan = harness.ctl(daemon, "plan", "--pid", server.pid, "--json").json
        self.assertFalse([p for p in plan["targets"][0]["probes"] if re.search("RestApi|PredictionService|RecordModel", p["function"])])
        self.assertFalse([cost for cost in plan["costs"] if cost["unit"] == "request"])


if __name__ == "__main__":
    harness.main()
