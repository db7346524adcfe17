#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operations that are sampled to keep a budget: estimates against an exact capture of the same server, and against the number of runs
that the server counts. As root."""
import concurrent.futures

import harness
import test_cli
import test_plan

BUDGET = 10             # percent
WINDOW_S = 8
MEAN_WITHIN = 0.05
# Of the time of all operations: what has less is not compared.
SHARE = 0.01


class Sampled(test_plan.LivePlan):
    rows = 64

    def test_estimates_agree_with_an_exact_capture_and_with_the_number_of_runs(self):
        harness.retry_times(3, self.attempt)

    def attempt(self, _):
        before, _ = self.capture_json("--level", 2, duration="2s")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            rate = pool.submit(self.server.runs_per_s, WINDOW_S)
            sampled, xspace = self.capture_json("--level", 2, "--max-overhead", BUDGET, duration=f"{WINDOW_S}s", status=test_cli.LOSS)
        after, _ = self.capture_json("--level", 2, duration="2s")
        self.check_slices(sampled, xspace)
        self.check_counts(sampled, before, rate.result())
        self.check_means(sampled, before, after)

    @harness.only_long
    def test_a_recorder_samples_too(self):
        harness.retry_times(3, self.attempt_recorder)

    def attempt_recorder(self, _):
        before, _ = self.capture_json("--level", 2, duration="2s")
        recorder = self.start(harness.Daemon, "--recorder", 2, "--recorder-overhead", BUDGET)
        harness.wait_target(recorder, self.server.pid)
        status = lambda: harness.ctl(recorder, "status", "--json").json["recorder"]
        harness.wait_until(lambda: "ops" in status()["sampled"], 20, "it samples operations")
        self.assertNotIn("ops", status()["given_up"])
        rate = self.server.runs_per_s(WINDOW_S)
        command = harness.ctl(recorder, "snapshot", "-o", self.logdir, "--last", f"{WINDOW_S}s", "--json")
        self.assertEqual(command.status, test_cli.LOSS, command.stderr)
        recorder.stop()
        after, _ = self.capture_json("--level", 2, duration="2s")
        self.check_slices(command.json, harness.XSpace(command.json["file"]))
        self.check_counts(command.json, before, rate)
        self.check_means(command.json, before, after)

    def check_slices(self, sampled, xspace):
        """The trace shows when it did not look."""
        sampling = sampled["op_sampling"]
        self.assertGreaterEqual(sampling["slices"], 3)
        paused = [e for e in xspace.lines()["not captured"] if e.name.startswith("Not recorded here: ops")]
        unseen = [(e.start_ps, e.start_ps + e.duration_ps) for e in paused]
        unseen_ns = sum(end - start for start, end in unseen) / 1e3
        self.assertAlmostEqual((sampling["seen_ns"] + unseen_ns) / sampled["window_ns"], 1, delta=1e-3)
        self.assertLessEqual(abs(len(paused) - sampling["slices"]), 1)
        ops = [e for events in xspace.op_events().values() for e in events]
        self.assertGreater(len(ops), 1000)
        self.assertEqual([e for e in ops if any(start < e.start_ps < end for start, end in unseen)], [])
        self.assertTrue(any(w.startswith("Operations were sampled") for w in xspace.warnings), xspace.warnings)
        # Each slice but the last one has what it is for.
        edges = [0] + [edge for gap in unseen for edge in gap]
        for start, end in list(zip(edges[::2], edges[1::2]))[1:]:
            self.assertGreaterEqual(end - start, 0.1e12)
            self.assertTrue(any(start <= e.start_ps < end for e in ops))
        if sampled["overhead_percent"] > BUDGET * 1.1:
            raise harness.Disturbed(f"{sampled['overhead_percent']} % with a budget of {BUDGET} %")

    def check_counts(self, sampled, exact, runs_per_s):
        """The server knows how often it ran, and each run has the same operations."""
        runs = runs_per_s * sampled["window_ns"] / 1e9
        a_run = {op["name"]: op["count"] / exact["runs"] for op in exact["top_ops"]}
        worst = 0
        for op in sampled["top_ops"]:
            if round(a_run.get(op["name"], 0)) >= 1:
                worst = max(worst, abs(op["count"] / (runs * round(a_run[op["name"]])) - 1))
        print(f"     counts of ops within {100 * worst:.1f} % of the server's {runs:,.0f} runs")
        if worst > 0.15:
            raise harness.Disturbed(f"counts differ by {100 * worst:.1f} %")

    def check_means(self, sampled, before, after):
        means = [{op["name"]: op["total_ns"] / op["count"] for op in found["top_ops"]} for found in (before, after)]
        work = sum(op["self_ns"] for op in sampled["top_ops"])
        compared, worst = 0, 0
        for op in sampled["top_ops"]:
            if op["self_ns"] < SHARE * work or any(op["name"] not in m for m in means):
                continue
            compared += 1
            self.assertGreater(op["seen"], 100)
            self.assertGreater(op["self_error_ns"], 0)
            low, high = sorted(m[op["name"]] for m in means)
            off = max(low - op["mean_ns"], op["mean_ns"] - high, 0)
            # On a busy machine a few of them take long: the interval says so.
            if off > op["mean_error_ns"]:
                worst = max(worst, off / op["mean_ns"])
        print(f"     {sampled['op_sampling']['slices']} slices, {sampled['op_sampling']['seen_ns'] / 1e9:.2f} s of {WINDOW_S} s: "
              f"means of {compared} ops within {100 * worst:.1f} %, or their interval, of two exact captures")
        self.assertGreaterEqual(compared, 5)
        if worst > MEAN_WITHIN:
            raise harness.Disturbed(f"means differ by {100 * worst:.1f} %")


if __name__ == "__main__":
    harness.main()
