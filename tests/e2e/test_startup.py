# SPDX-License-Identifier: Apache-2.0
"""How servers start: tfprofctl lifecycle compared with what the servers and their clients recorded themselves. As root."""
import re
import shutil
import subprocess
import threading
import time

import harness
import test_lifecycle

CTL = harness.OUT / "tfprofctl"
NO_TARGET = 4
PLACES = 16   # processes that are watched at a time
MODELS = ("half_plus_two", "layered")
MS = 1_000_000
# What TensorFlow's own loader logs of each load.
LOGGED = re.compile(r"SavedModel load for tags \{ serve \}; Status: success: OK\. Took (\d+) microseconds\.")
# A server that is slow to get to its next step, so that each can be looked at.
SLOW = "import sys, time, tensorflow as tf; print('imported', flush=True); sys.stdin.readline(); tf.saved_model.load(sys.argv[1]); " \
       "print('loaded', flush=True); sys.stdin.readline()"


def lifecycle(daemon, pid):
    command = harness.ctl(daemon, "lifecycle", "--pid", pid, "--json")
    if command.status:
        raise harness.HarnessError(f"tfprofctl lifecycle ended with {command.status}: {command.stderr}")
    process, = command.json["processes"]
    return process


def phases(process, name):
    return [phase for phase in process["phases"] if phase["name"] == name]


def took(phase):
    return phase["end_unix_ns"] - phase["start_unix_ns"]


class Startup(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.before = harness.bpf_objects()

    def wait_for(self, daemon, pid, condition, what):
        harness.wait_until(lambda: condition(lifecycle(daemon, pid)), 20, what)
        return lifecycle(daemon, pid)

    def start_server(self, kind, **options):
        """(the server, the Unix times in ns between which it was made)"""
        since = time.time_ns()
        server = self.start(kind, MODELS, **options)
        return server, since

    def check_order(self, process, server, since):
        """What every server's start is like."""
        start, = phases(process, "start")
        self.assertGreater(start["start_unix_ns"], since - 10 * MS)
        self.assertFalse(start["start_is_bound"])
        libraries, = phases(process, "libraries")
        self.assertEqual(libraries["start_unix_ns"], start["end_unix_ns"])
        loads = phases(process, "load")
        self.assertEqual([load["path"] for load in loads], [str(harness.MODELS / model / "1") for model in MODELS])
        self.assertLessEqual(libraries["end_unix_ns"], loads[0]["start_unix_ns"])
        runtime, = phases(process, "runtime")
        self.assertLess(runtime["start_unix_ns"], loads[0]["end_unix_ns"])
        for load, restore in zip(loads, phases(process, "restore"), strict=True):
            self.assertEqual(restore["path"], load["path"])
            self.assertLess(load["start_unix_ns"], restore["start_unix_ns"])
            self.assertLess(restore["end_unix_ns"], load["end_unix_ns"])
        self.assertFalse(any(load["failed"] or load["goes_on"] or load["start_is_bound"] for load in loads))

    def check_service(self, daemon, server, process):
        """It waits for its first request, and is watched until then and no longer."""
        wait, = phases(process, "wait for the first request")
        self.assertTrue(wait["goes_on"] and process["watched"])
        self.assertEqual(phases(process, "serving"), [])
        self.assertTrue(set(harness.bpf_objects()) - set(self.before))
        asked = time.time_ns()
        self.start(harness.Load, server, model="half_plus_two", count=20).finish()
        answered = time.time_ns()
        process = self.wait_for(daemon, server.pid, lambda p: not p["watched"], "the end of watching")
        serving, = phases(process, "serving")
        self.assertTrue(asked < serving["start_unix_ns"] < answered, (asked, serving, answered))
        self.assertEqual(phases(process, "wait for the first request")[0]["end_unix_ns"], serving["start_unix_ns"])
        self.assertIsNone(process["note"])
        self.assertEqual(harness.leftovers(self.before, daemon=daemon), [])

    def test_a_native_server_is_recorded_from_its_exec_to_its_first_request(self):
        daemon = self.start(harness.Daemon, "--lifecycle")
        # The first process of a build takes longer to look into than it takes to load its models.
        first = self.start(harness.NativeServer)
        harness.wait_target(daemon, first.pid)
        self.wait_for(daemon, first.pid, lambda p: p["watched"], "watching")
        first.stop()
        server, since = self.start_server(harness.NativeServer)
        process = self.wait_for(daemon, server.pid, lambda p: len(phases(p, "load")) == 2 and phases(p, "load")[1]["end_unix_ns"], "loads")
        self.check_order(process, server, since)
        logged = [int(microseconds) * 1000 for microseconds in LOGGED.findall(server.stderr())]
        found = [took(load) for load in phases(process, "load")]
        print("     loads:", [f"{a / MS:.1f} ms, logged {b / MS:.1f}" for a, b in zip(found, logged, strict=True)])
        for mine, own in zip(found, logged):
            # Its own measure leaves out what comes before it reads the model, and after.
            self.assertAlmostEqual(mine, own, delta=0.1 * own + 10 * MS)
        self.check_service(daemon, server, process)

    def test_a_python_server_is_recorded_from_its_exec_to_its_first_request(self):
        daemon = self.start(harness.Daemon, "--lifecycle")
        server, since = self.start_server(harness.GrpcServer)
        process = self.wait_for(daemon, server.pid, lambda p: len(phases(p, "load")) == 2 and phases(p, "load")[1]["end_unix_ns"], "loads")
        self.check_order(process, server, since)
        self.check_service(daemon, server, process)

    def test_each_step_can_be_queried_while_it_is_in_progress(self):
        daemon = self.start(harness.Daemon, "--lifecycle")
        program = subprocess.Popen([harness.PYTHON, "-c", SLOW, harness.MODELS / "layered/1"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(program.wait)
        self.addCleanup(program.stdin.close)
        self.addCleanup(program.stdout.close)
        self.assertEqual(program.stdout.readline(), "imported\n")
        harness.wait_target(daemon, program.pid)
        process = self.wait_for(daemon, program.pid, lambda p: p["watched"], "watching")
        self.assertEqual([p["name"] for p in process["phases"]][:2], ["start", "libraries"])
        self.assertEqual(phases(process, "load"), [])
        begun = time.time_ns()
        program.stdin.write("\n")
        program.stdin.flush()
        self.assertEqual(program.stdout.readline(), "loaded\n")
        ended = time.time_ns()
        process = self.wait_for(daemon, program.pid, lambda p: phases(p, "load") and phases(p, "load")[0]["end_unix_ns"], "the load")
        load, = phases(process, "load")
        self.assertTrue(begun < load["start_unix_ns"] < load["end_unix_ns"] < ended)
        people = harness.ctl(daemon, "lifecycle", "--pid", program.pid)
        self.assertRegex(people.stdout, rf"(?s)^Process {program.pid} \(python\), started 20.*, still starting\n.*load +{harness.MODELS}/layered/1\n"
                                        r".*\.\.\.  wait for the first request")
        program.kill()
        program.wait()
        harness.wait_until(lambda: harness.ctl(daemon, "lifecycle", "--pid", program.pid).status == NO_TARGET, 10, "its end")
        self.assertEqual(harness.leftovers(self.before, daemon=daemon), [])

    def test_a_worker_that_is_forked_begins_with_its_fork(self):
        daemon = self.start(harness.Daemon, "--lifecycle")
        program = "import os, sys, tensorflow as tf\nprint('imported', flush=True); sys.stdin.readline()\npid = os.fork()\n" \
                  f"if pid: print(pid, flush=True); os.waitpid(pid, 0)\nelse:\n    sys.stdin.readline(); tf.saved_model.load('{harness.MODELS}/layered/1')\n" \
                  "    print('loaded', flush=True); sys.stdin.readline()"
        process = subprocess.Popen([harness.PYTHON, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.stdout.close)
        self.assertEqual(process.stdout.readline(), "imported\n")
        harness.wait_target(daemon, process.pid)
        forking = time.time_ns()
        process.stdin.write("\n")
        process.stdin.flush()
        worker = int(process.stdout.readline())
        harness.wait_target(daemon, worker)
        found = self.wait_for(daemon, worker, lambda p: p["watched"], "watching")
        self.assertTrue(found["seen_live"])
        self.assertAlmostEqual(phases(found, "start")[0]["start_unix_ns"], forking, delta=1000 * MS)
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "loaded\n")
        found = self.wait_for(daemon, worker, lambda p: phases(p, "load") and phases(p, "load")[0]["end_unix_ns"], "the load")
        self.assertEqual(phases(found, "load")[0]["path"], f"{harness.MODELS}/layered/1")

    def test_a_load_that_fails_is_reported(self):
        broken = self.directory / "broken"
        shutil.copytree(harness.MODELS / "layered", broken)
        for file in (broken / "1/variables").iterdir():
            file.unlink()
        daemon = self.start(harness.Daemon, "--lifecycle")
        program = f"import sys, tensorflow as tf\ntry: tf.saved_model.load('{broken}/1')\nexcept Exception: pass\n" \
                  f"tf.saved_model.load('{harness.MODELS}/layered/1'); print('loaded', flush=True); sys.stdin.readline()"
        process = subprocess.Popen([harness.PYTHON, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.stdout.close)
        self.assertEqual(process.stdout.readline(), "loaded\n")
        found = self.wait_for(daemon, process.pid, lambda p: len(phases(p, "load")) == 2 and phases(p, "load")[1]["end_unix_ns"], "loads")
        failed, loaded = phases(found, "load")
        self.assertEqual((failed["failed"], failed["end_unix_ns"]), (True, None))
        self.assertEqual((loaded["failed"], loaded["path"]), (False, f"{harness.MODELS}/layered/1"))

    def test_without_the_key_nothing_is_attached_and_the_known_phases_are_reported(self):
        daemon = self.start(harness.Daemon)
        server, since = self.start_server(harness.NativeServer)
        harness.wait_target(daemon, server.pid)
        process = lifecycle(daemon, server.pid)
        self.assertEqual(harness.leftovers(self.before, daemon=daemon), [])
        self.assertTrue(process["seen_live"])
        self.assertFalse(process["watched"])
        self.assertIn("--lifecycle", process["note"])
        self.assertEqual([p["name"] for p in process["phases"]], ["start", "libraries", "runtime"])
        self.assertTrue(process["phases"][2]["start_is_bound"])
        self.assertGreater(process["phases"][0]["start_unix_ns"], since - 10 * MS)

    def test_an_older_process_has_only_the_phases_that_can_be_reconstructed(self):
        server, since = self.start_server(harness.NativeServer)
        daemon = self.start(harness.Daemon, "--lifecycle")
        harness.wait_target(daemon, server.pid)
        self.start(harness.Load, server, model="half_plus_two", count=20).finish()
        process = lifecycle(daemon, server.pid)
        self.assertEqual((process["seen_live"], process["watched"]), (False, False))
        self.assertIn("started before the daemon", process["note"])
        self.assertEqual([p["name"] for p in process["phases"]], ["start", "runtime"])
        self.assertTrue(all(p["start_is_bound"] for p in process["phases"]))
        self.assertAlmostEqual(process["phases"][0]["start_unix_ns"], since, delta=100 * MS)
        self.assertEqual(harness.leftovers(self.before, daemon=daemon), [])

    def test_a_capture_during_a_start_has_it_as_a_track_and_so_has_its_replay(self):
        daemon = self.start(harness.Daemon, "--lifecycle")
        captured = {}
        recording = self.directory / "a.tfp"

        def capture():
            captured["command"] = harness.ctl_capture(daemon, [], self.directory / "live", "--record", recording, duration="5s")
        thread = threading.Thread(target=capture)
        first = self.start(harness.NativeServer, ["half_plus_two"])  # an empty host has nothing to capture
        harness.wait_target(daemon, first.pid)
        thread.start()
        time.sleep(0.5)
        server, _ = self.start_server(harness.NativeServer)
        self.start(harness.Load, server, model="half_plus_two", count=20).finish()
        thread.join()
        # Other processes of the host may end within the window.
        self.assertEqual(captured["command"].json["dropped"], 0, captured["command"].stderr)
        file, = harness.xspace_files(self.directory / "live")
        xspace = harness.XSpace(file)
        begin = xspace.plane_stats["Task Environment"]["profile_start_time"]
        line, = [events for name, events in xspace.lines().items() if name == f"lifecycle of {server.pid}"]
        told = lifecycle(daemon, server.pid)
        base = min(l.timestamp_ns for p in xspace.proto.planes for l in p.lines)
        shown = [(e.name.split(" /")[0], round(begin + e.start_ps / 1000 - base)) for e in line]
        expected = [(p["name"], p["start_unix_ns"]) for p in told["phases"] if p["start_unix_ns"] > begin]
        self.assertEqual([name for name, _ in shown], [name for name, _ in expected])
        self.assertIn("serving", dict(shown))
        for (name, mine), (_, known) in zip(shown, expected):
            self.assertAlmostEqual(mine, known, delta=2 * MS, msg=name)
        again = harness.run(CTL, "replay", recording, "-o", self.directory / "again")
        self.assertEqual(again.status, 0, again.stderr)
        replayed, = harness.xspace_files(self.directory / "again")
        self.assertEqual(replayed.read_bytes(), file.read_bytes())

    def test_slots_of_processes_that_have_ended_are_reused(self):
        daemon = self.start(harness.Daemon, "--lifecycle")
        processes = [self.start(test_lifecycle.Fixture) for _ in range(PLACES + 2)]

        def watched():
            alive = {p.pid for p in processes if p.running()}
            return {p["pid"] for p in harness.ctl(daemon, "lifecycle", "--json").json["processes"] if p["watched"]} & alive
        for process in processes:
            harness.wait_target(daemon, process.pid)
        harness.wait_until(lambda: len(watched()) == PLACES, 20, "that as many are watched as there is room for")
        first = watched()
        left = [p.pid for p in processes if p.pid not in first]
        for pid in left:
            harness.wait_until(lambda: "too many processes" in (lifecycle(daemon, pid)["note"] or ""), 10, "the note of a process without a place")
        next(p for p in processes if p.pid in first).stop()
        harness.wait_until(lambda: len(watched()) == PLACES and watched() & set(left), 30, "that a free place is used")
        for process in processes:
            process.stop()
        self.assertEqual(harness.leftovers(self.before, timeout=10, daemon=daemon), [])

    def test_a_process_is_reported_only_to_users_who_may_profile_it(self):
        daemon = self.start(harness.Daemon, "--lifecycle")
        server, _ = self.start_server(harness.NativeServer)
        harness.wait_target(daemon, server.pid)
        relay = test_lifecycle.UserRelay(("127.0.0.1", daemon.port), test_lifecycle.STRANGER)
        self.addCleanup(relay.close)
        asked = [CTL, "--daemon", f"127.0.0.1:{relay.port}", "lifecycle"]
        self.assertEqual(harness.run(*asked, "--json").json, {"processes": []})
        denied = harness.run(*asked, "--pid", server.pid)
        self.assertEqual((denied.status, denied.stdout), (NO_TARGET, ""))
        self.assertIn("tfprofctl targets", denied.stderr)

    def test_usage_errors_end_with_2(self):
        for arguments in (["--pid", "x"], ["--pid", "0"], ["surplus"]):
            self.assertEqual(harness.run(CTL, "lifecycle", *arguments).status, 2)


if __name__ == "__main__":
    harness.main()
