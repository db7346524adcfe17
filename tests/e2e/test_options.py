#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Options that choose what is shown, beside what the clients and the server know: --slower-than, --path, --model and --sockets of captures and of
snapshots, and a daemon by the name of its abstract socket. As root."""
import concurrent.futures
import json
import pathlib
import shutil
import tempfile
import time

import harness
from test_delays import MS, Client, Log, Server, latency, window

OK, LOSS = 0, 6
DELAY_MS, SLOWER_THAN = 40, "20ms"
# Not in step: those that are delayed are of both.
MODELS = {"half_plus_two": (100,), "layered": (70, "--width", 64)}
PATH = "/v1/models/{}:predict"


class Filters(harness.TestCase):
    """One request of twenty is delayed before its run; each model has a client of its own. Captures with each choice of filters, at once."""
    daemon_options = ()
    CHOICES = {"slower": ("--slower-than", SLOWER_THAN), "path": ("--path", PATH.format("half*")), "model": ("--model", "layered"),
               "several": ("--model", "layered", "--slower-than", SLOWER_THAN)}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="tfprofd-e2e-"))
        cls.addClassCleanup(shutil.rmtree, cls.shared, ignore_errors=True)
        cls.daemon = cls.start_shared(harness.Daemon, *cls.daemon_options)
        cls.server = cls.start_shared(Server, cls.shared, MODELS, "--delay-decode", DELAY_MS)
        harness.wait_target(cls.daemon, cls.server.pid)
        harness.read_files(cls.daemon, cls.server)
        clients = {model: cls.start_shared(Client, cls.shared, cls.server, model, *options, rate=rate, id_base=1 + 100_000 * i)
                   for i, (model, (rate, *options)) in enumerate(MODELS.items())}
        cls.commands = cls.take_all()
        cls.log = Log(sorted((e | {"model": model} for model, client in clients.items() for e in client.finish()),
                             key=lambda e: (e["local_port"], e["send_ns"])))
        cls.truth = cls.server.finish()

    @classmethod
    def take_all(cls):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            futures = {choice: pool.submit(harness.ctl_capture, cls.daemon, [cls.server.pid], cls.shared / choice, "--requests", cls.file(choice), *options)
                       for choice, options in cls.CHOICES.items()}
            return {choice: future.result() for choice, future in futures.items()}

    @classmethod
    def file(cls, choice):
        return cls.shared / f"{choice}.ndjson"

    def filtered(self, choice):
        """What was asked for: .listed are the requests of the file with the clients' entries, .inside all that clients had in the window, by id."""
        command = self.commands[choice]
        self.assertIn(command.status, (OK, LOSS), command.stderr)
        self.result = command.json
        start, end = window(self.result)
        self.inside = {e["id"]: e for e in self.log.exchanges if e["send_ns"] > start and e["receive_ns"] < end}
        self.crossing = {e["id"]: e for e in self.log.exchanges if e["send_ns"] <= start < e["receive_ns"] or e["send_ns"] < end <= e["receive_ns"]}
        self.listed = [(request, self.log.find(request)) for request in map(json.loads, self.file(choice).read_text().splitlines())]
        summary = self.result["requests"]
        self.assertEqual(self.result["dropped"], 0)
        self.assertEqual(len(self.listed), summary["whole"] + summary["cut"])
        self.assertGreater(summary["filtered"], 0)
        total = summary["whole"] + summary["cut"] + summary["filtered"]
        self.assertGreaterEqual(total, len(self.inside))
        self.assertLessEqual(total, len(self.inside) + len(self.crossing))

    def check_model(self, model):
        """All of the model's requests are listed, and nothing else."""
        ids = [entry["id"] for _, entry in self.listed]
        self.assertEqual(len(ids), len(set(ids)))
        self.assertGreater(len(ids), 20)
        self.assertEqual({entry["model"] for _, entry in self.listed}, {model})
        self.assertEqual({request["model"] for request, _ in self.listed}, {model})
        self.assertEqual({id for id, e in self.inside.items() if e["model"] == model} - set(ids), set())
        self.assertEqual([found["name"] for found in self.result["requests"]["models"]], [model])

    def test_slower_than_selects_the_delayed_requests(self):
        self.filtered("slower")
        least_ns = int(SLOWER_THAN.removesuffix("ms")) * MS
        self.assertEqual(self.result["requests"]["filter"]["slower_than_ns"], least_ns)
        whole = [(request, entry) for request, entry in self.listed if not (request["cut_start"] or request["cut_end"])]
        for request, entry in whole:
            self.assertGreater(request["latency_ns"], least_ns)
            self.assertGreater(latency(entry), least_ns)
        delayed = {id for id in self.inside if self.truth[id]["run_start_ns"] - self.truth[id]["read_ns"] >= DELAY_MS * MS}
        self.assertGreater(len(delayed), 5)
        self.assertEqual(delayed - {entry["id"] for _, entry in self.listed}, set())

    def test_path_selects_the_requests_of_matching_paths(self):
        self.filtered("path")
        self.check_model("half_plus_two")
        self.assertEqual({request["path"] for request, _ in self.listed}, {PATH.format("half_plus_two")})

    def test_model_selects_the_requests_of_that_model(self):
        self.filtered("model")
        self.check_model("layered")

    def test_several_filters_select_what_passes_all(self):
        self.filtered("several")
        self.assertTrue(self.listed)
        for request, entry in self.listed:
            self.assertEqual((request["model"], entry["model"]), ("layered", "layered"))
            self.assertTrue(request["latency_ns"] > int(SLOWER_THAN.removesuffix("ms")) * MS or request["cut_start"] or request["cut_end"])


class SnapshotFilters(Filters):
    """The same of what the recorder has."""
    daemon_options = ("--recorder", 2, "--recorder-overhead", 100)

    @classmethod
    def take_all(cls):
        def has_kept():
            recorder = harness.ctl(cls.daemon, "status", "--json").json["recorder"]
            return recorder and recorder["attached"] and recorder["kept_ns"] > 2e9
        harness.wait_until(has_kept, 20, "the recorder has kept two seconds")
        # Without those requests by which the clients warmed up, which are in no log.
        time.sleep(2.2)
        return {choice: harness.ctl(cls.daemon, "snapshot", "--last", "2s", "-o", cls.shared / choice, "--json", "--requests", cls.file(choice), *options)
                for choice, options in cls.CHOICES.items()}


class Sockets(harness.TestCase):
    def test_without_sockets_runs_are_captured_but_no_requests(self):
        daemon, server = self.start(harness.Daemon), self.start(harness.NativeServer, ["half_plus_two"])
        harness.wait_target(daemon, server.pid)
        self.start(harness.Load, server)
        for choice, seen in ("auto", True), ("off", False):
            file = self.directory / choice
            command = harness.ctl_capture(daemon, [server.pid], self.directory / "logdir", "--sockets", choice, "--requests", file, duration="500ms")
            self.assertEqual(command.status, OK, command.stderr)
            self.assertGreater(command.json["runs"], 10)
            self.assertGreater(command.json["ops"], 10)
            self.assertEqual(bool(file.read_text()), seen)
            lanes = [name for name in harness.XSpace(command.json["file"]).lines() if name.startswith("requests ")]
            self.assertEqual(bool(lanes), seen)
        # And of these nothing is attached: a plan has no cost for them.
        units = [cost["unit"] for cost in harness.ctl(daemon, "plan", "--pid", server.pid, "--sockets", "off", "--json").json["costs"]]
        self.assertFalse([unit for unit in units if "socket" in unit or "system call" in unit], units)


class Address(harness.TestCase):
    def test_a_daemon_is_reached_by_the_name_of_its_abstract_socket(self):
        daemon, server = self.start(harness.Daemon), self.start(harness.NativeServer, ["half_plus_two"], self_load=1, http=False)
        harness.wait_target(daemon, server.pid)
        where = ["--daemon", f"@{daemon.port}"]
        listed = harness.run(harness.OUT / "tfprofctl", *where, "targets", "--json")
        self.assertEqual(listed.status, OK, listed.stderr)
        self.assertIn(server.pid, [target["pid"] for target in listed.json["targets"]])
        command = harness.run(harness.OUT / "tfprofctl", *where, "capture", "--pid", server.pid, "--duration", "300ms", "-o", self.directory / "logdir",
                              "--json")
        self.assertEqual(command.status, OK, command.stderr)
        self.assertGreater(command.json["ops"], 0)


if __name__ == "__main__":
    harness.main()
