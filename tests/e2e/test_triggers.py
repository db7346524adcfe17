#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Triggers: the recorder keeps what it holds when a condition of the configuration is met. As root."""
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import time
import urllib.request

import harness
import test_sockets
from test_delays import Client, Log, MS, Server, latency

OK, NO_TARGET = 0, 4
STALL_MS = 400
# Of a name that nothing else on this host has.
MODEL = "canary_triggered"
OWNER, OTHER, SERVICE = 4242, 4243, 4244
DAEMON = "[daemon]\nrecorder = 2\nrecorder-overhead = 100\nsnapshot-interval = 1h\n"
SLOW = "[trigger slow]\nmodel = canary_*\nlatency-above = 300ms\nlast = 5s\n"


class TestCase(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.directory.chmod(0o755)
        self.snapshots = self.directory / "snapshots"
        self.model = self.directory / MODEL
        shutil.copytree(harness.MODELS / "half_plus_two", self.model)

    def write(self, text, directory=None):
        config = self.directory / "tfprofd.ini"
        config.write_text(text.replace("[daemon]\n", f"[daemon]\nsnapshot-directory = {directory or self.snapshots}\n", 1))
        return config

    def serve_with(self, text, *arguments, directory=None, **how):
        self.daemon = self.start(harness.Daemon, "--config", self.write(text, directory), *arguments, **how)
        return self.daemon

    def begin(self, *options):
        server = self.start(Server, self.directory, [self.model], *options)
        harness.wait_target(self.daemon, server.pid)
        harness.wait_recorded(self.daemon, server.pid)
        return server

    def names(self):
        return sorted(os.listdir(self.snapshots))

    def wait_kept(self, count, timeout=20):
        harness.wait_until(lambda: len(self.names()) >= count, timeout, f"{count} snapshots")
        return [self.snapshots / name for name in self.names()]

    def wait_log(self, pattern):
        return harness.wait_until(lambda: re.search(pattern, self.daemon.stderr()), 20, pattern)

    def replay(self, path):
        """The result of a replay, and its requests."""
        requests = self.directory / "requests"
        command = harness.ctl(None, "replay", path, "--json", "-o", self.directory / f"logdir-{path.stem}", "--requests", requests)
        self.assertIn(command.status, (0, 6), command.stderr)
        return command.json, [json.loads(line) for line in requests.read_text().splitlines()]

    def metrics(self, port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            return answer.read().decode()


class Latency(TestCase):
    def test_the_snapshot_holds_the_slow_request_of_the_client_s_log(self):
        port = harness.free_port()
        self.serve_with(DAEMON + SLOW, "--metrics-listen", f"127.0.0.1:{port}")
        server = self.begin("--delay-decode", STALL_MS)
        client = self.start(Client, self.directory, server, MODEL, clients=1, rate=20)
        path, = self.wait_kept(1)
        self.assertRegex(path.name, rf"^\d{{8}}T\d{{6}}\.\d{{3}}Z-slow-{server.pid}\.tfp$")
        # More of them follow, within the interval.
        time.sleep(3)
        log = Log(client.finish())
        self.assertGreater(len([e for e in log.exchanges if latency(e) > STALL_MS * MS]), 1)
        self.assertEqual(self.names(), [path.name])
        result, requests = self.replay(path)
        # Other tests' processes are recorded, too.
        slowest = max((r for r in requests if r["pid"] == server.pid), key=lambda r: r["latency_ns"])
        exchange = log.find(slowest)
        self.assertGreaterEqual(slowest["latency_ns"], STALL_MS * MS)
        self.assertLess(slowest["latency_ns"], latency(exchange))
        self.assertGreater(latency(exchange), STALL_MS * MS)
        self.assertEqual(result["requests"]["lost"], 0)
        self.assertTrue(harness.XSpace(result["file"]).ops())
        # The reason is the same in the log, in the list and in the recording.
        reason = self.wait_log(rf"trigger slow: kept {re.escape(path.name)}, \d+ bytes, the last [\d.]+ m?s, of process {server.pid} "
                               r"\(native_server\): (model canary_triggered: a request took [4-9]\d\d ms, above 300 ms)")[1]
        self.assertIn(f"Kept by the trigger slow: {reason}.", result["warnings"])
        self.assertIn(f"Kept by the trigger slow: {reason}.", harness.XSpace(result["file"]).warnings)
        command = harness.ctl(self.daemon, "snapshots", "--json")
        self.assertEqual(command.status, OK, command.stderr)
        listed, = command.json["snapshots"]
        self.assertEqual((listed["file"], listed["trigger"], listed["pid"], listed["process"], listed["reason"], listed["bytes"]),
                         (path.name, "slow", server.pid, "native_server", reason, path.stat().st_size))
        self.assertEqual(listed["duration_ns"], result["window_ns"])
        self.assertIn(reason, harness.ctl(None, "snapshots", self.snapshots).stdout)
        # So are the counts, and the audit log has the file.
        text = self.metrics(port)
        self.assertIn('tfprofd_snapshots_total{trigger="slow"} 1\n', text)
        self.assertGreater(int(re.search(r'tfprofd_snapshots_suppressed_total\{trigger="slow",reason="interval"\} (\d+)', text)[1]), 0)
        audit = (self.daemon.state / "audit.log").read_text()
        self.assertRegex(audit, rf"verdict=allow action=snapshot client_uid=0 target_pid={server.pid} .*reason={re.escape(path.name)} bytes=\d+")

    def test_the_oldest_snapshots_make_room(self):
        self.serve_with(DAEMON.replace("1h", "1s") + "snapshots-keep = 2\n" + SLOW)
        server = self.begin("--delay-decode", STALL_MS)
        client = self.start(Client, self.directory, server, MODEL, clients=1, rate=40)
        first = self.wait_kept(1)[0].name
        harness.wait_until(lambda: first not in self.names(), 30, "the first one is removed")
        client.finish()
        self.assertLessEqual(len(self.names()), 2)
        self.assertGreaterEqual(len(self.names()), 1)


class OtherConditions(TestCase):
    def test_percentiles_queues_and_models_have_conditions_of_their_own(self):
        self.serve_with(DAEMON + "[trigger p99]\nmodel = canary_triggered\np99-above = 200ms\nrequests = 20\nwindow = 30s\n[trigger queue]\nqueue-above = 3\n"
                        "[trigger other]\nmodel = layered\nlatency-above = 1ms\n[trigger errors]\nerror-rate-above = 1%\n")
        server = self.begin("--delay-decode", STALL_MS)
        client = self.start(Client, self.directory, server, MODEL, clients=8, rate=400)
        paths = self.wait_kept(2)
        time.sleep(1)
        client.finish()
        self.assertEqual({re.fullmatch(r".*Z-(\w+)-\d+\.tfp", name)[1] for name in self.names()}, {"p99", "queue"})
        reasons = {s["trigger"]: s["reason"] for s in harness.ctl(self.daemon, "snapshots", "--json").json["snapshots"]}
        self.assertRegex(reasons["p99"], r"^model canary_triggered: the 99th percentile of \d+ requests within 30\.0 s is above 200 ms, the slowest took \S+ m?s$")
        self.assertRegex(reasons["queue"], r"^\d+ requests are in progress, above 3$")
        for path in paths:
            self.assertGreater(len(self.replay(path)[1]), 0)


    def test_answers_of_failures_are_counted_and_the_client_s_mistakes_are_not(self):
        self.serve_with(DAEMON + "[trigger errors]\nmodel = canary*\nerror-rate-above = 20%\nrequests = 10\n")
        target = self.start(test_sockets.Target, self.directory)
        listener, port = target.done("listen", "4")
        harness.wait_target(self.daemon, target.pid)
        harness.wait_recorded(self.daemon, target.pid)
        connection = test_sockets.Connection(target, listener, port)
        # Two of ten are not above a fifth: the third failure is.
        for i, status in enumerate([200, 503] * 2 + [404] * 6 + [500, 200]):
            connection.feed(test_sockets.request(f"/v1/models/canary{i}:predict"))
            connection.answer(test_sockets.answer(status))
        path, = self.wait_kept(1)
        self.wait_log(r"trigger errors: kept .*: model canary10: 3 of 11 requests within 10\.0 s failed, above 20 %")
        statuses = [r["status"] for r in sorted(self.replay(path)[1], key=lambda r: r["start_ns"])]
        self.assertEqual(statuses[:11], [200, 503] * 2 + [404] * 6 + [500])
        connection.close()


class Readers(TestCase):
    def list_as(self, uid):
        command = harness.run(harness.OUT / "tfprofctl", "snapshots", self.snapshots, "--json", user=uid)
        self.assertEqual(command.status, OK, command.stderr)
        return json.loads(command.stdout)["snapshots"]

    def may(self, uid, how, path):
        """Whether a user may open the file."""
        program = f"import os; os.open({str(path)!r}, {how})"
        return not subprocess.run(["/usr/bin/python3", "-c", program], user=uid, group=uid, extra_groups=[], cwd="/", check=False,
                                  stderr=subprocess.DEVNULL).returncode

    def test_root_and_the_user_of_the_process_can_read_it_and_nobody_else(self):
        # What the daemon captures as this user is of this user alone.
        self.serve_with(DAEMON + f"captures-user = {OWNER}\n" + SLOW)
        server = self.start(harness.NativeServer, models=(self.model,), prefix=["setpriv", "--reuid", OWNER, "--regid", OWNER, "--clear-groups"],
                            arguments=("--delay-decode", STALL_MS))
        harness.wait_target(self.daemon, server.pid)
        load = self.start(Client, self.directory, server, MODEL, clients=1, rate=20)
        path, = self.wait_kept(1)
        self.wait_log("trigger slow: kept")
        load.finish()
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o640)
        self.assertNotIn(path.stat().st_uid, (0, OWNER))
        self.assertEqual([self.may(uid, os.O_RDONLY, path) for uid in (0, OWNER, OTHER)], [True, True, False])
        self.assertEqual([self.may(uid, os.O_WRONLY, path) for uid in (OWNER, OTHER)], [False, False])
        (own,), (other,) = self.list_as(OWNER), self.list_as(OTHER)
        self.assertEqual((own["readable"], own["trigger"], own["pid"]), (True, "slow", server.pid))
        self.assertEqual((other["readable"], other.get("reason")), (False, None))

    def test_a_daemon_of_the_service_s_user_has_no_need_of_CAP_CHOWN(self):
        unit = (harness.ROOT / "packaging/systemd/tfprofd.service").read_text()
        names = re.search(r"^AmbientCapabilities=(.*)$", unit, re.MULTILINE)[1].split()
        self.assertNotIn("CAP_CHOWN", names)
        allowed = ",".join(f"+{name[4:].lower()}" for name in names)
        # It makes the directory itself, in one of its own, as that of its socket and its state is.
        logs = self.directory / "logs"
        logs.mkdir()
        os.chown(logs, SERVICE, SERVICE)
        self.snapshots = logs / "snapshots"
        script = (f'umask 0077; chown {SERVICE} "$(dirname "$3")"; exec setpriv --reuid={SERVICE} --regid={SERVICE} --clear-groups --no-new-privs '
                  f'--bounding-set=-all,{allowed} --inh-caps=-all,{allowed} --ambient-caps=-all,{allowed} "$@"')
        self.serve_with(DAEMON + f"captures-user = {OWNER}\n" + SLOW, prefix=["bash", "-c", script, "sh"])
        server = self.start(harness.NativeServer, models=(self.model,), prefix=["setpriv", "--reuid", OWNER, "--regid", OWNER, "--clear-groups"],
                            arguments=("--delay-decode", STALL_MS))
        harness.wait_target(self.daemon, server.pid)
        load = self.start(Client, self.directory, server, MODEL, clients=1, rate=20)
        path, = self.wait_kept(1)
        load.finish()
        self.assertEqual((path.stat().st_uid, stat.S_IMODE(self.snapshots.stat().st_mode)), (SERVICE, 0o755))
        self.assertEqual([self.may(uid, os.O_RDONLY, path) for uid in (OWNER, OTHER)], [True, False])

    def test_with_processes_of_several_users_it_is_for_root(self):
        self.serve_with(DAEMON + SLOW)
        servers = [self.start(harness.NativeServer, models=(self.model,), prefix=["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"],
                              arguments=("--delay-decode", STALL_MS)) for uid in (OWNER, OTHER)]
        for server in servers:
            harness.wait_target(self.daemon, server.pid)
            harness.wait_recorded(self.daemon, server.pid)
        load = self.start(Client, self.directory, servers[0], MODEL, clients=1, rate=20)
        path, = self.wait_kept(1)
        load.finish()
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        for uid in (OWNER, OTHER):
            self.assertFalse(self.may(uid, os.O_RDONLY, path))


class Reload(TestCase):
    """Sections [trigger NAME] that SIGHUP changes, while the client of one server goes on."""

    NEVER = SLOW.replace("300ms", "60s")

    def reload(self, text, *patterns, directory=None):
        """After the log has lines that match, which it did not have before."""
        before = len(self.daemon.stderr())
        self.write(text, directory)
        self.daemon.send(signal.SIGHUP)
        harness.wait_until(lambda: all(re.search(p, self.daemon.stderr()[before:]) for p in patterns), 10, str(patterns))
        return self.daemon.stderr()[before:]

    def begin_slow(self, text, **options):
        self.serve_with(text, **options)
        server = self.begin("--delay-decode", STALL_MS)
        self.start(Client, self.directory, server, MODEL, clients=1, rate=20)

    def stays(self, names, seconds=2.5):
        time.sleep(seconds)
        self.assertEqual(self.names(), names)

    def test_a_changed_threshold_applies_and_the_count_and_the_interval_go_on(self):
        port = harness.free_port()
        daemon = DAEMON.replace("1h", "3s")
        self.serve_with(daemon + self.NEVER, "--metrics-listen", f"127.0.0.1:{port}")
        server = self.begin("--delay-decode", STALL_MS)
        self.start(Client, self.directory, server, MODEL, clients=1, rate=20)
        self.stays([])
        self.reload(daemon + SLOW, "trigger slow: changed", "the configuration was reloaded")
        path, = self.wait_kept(1)
        # Within the interval, which the daemon counts from the snapshot and not from its own change.
        self.reload(daemon + SLOW.replace("300ms", "299ms"), "trigger slow: changed")
        harness.wait_until(lambda: 'tfprofd_snapshots_suppressed_total{trigger="slow",reason="interval"} 0' not in self.metrics(port), 3, "it is too soon")
        self.assertEqual(self.names(), [path.name])
        self.assertIn("above 299 ms", self.wait_kept(2) and self.wait_log(r"trigger slow: kept .*above 299 ms")[0])
        self.reload(daemon + self.NEVER, "trigger slow: changed")
        self.stays(self.names(), 4)
        self.assertIn(f'tfprofd_snapshots_total{{trigger="slow"}} {len(self.names())}\n', self.metrics(port))

    def test_a_file_with_an_error_keeps_the_old_triggers_and_has_one_line(self):
        self.begin_slow(DAEMON + self.NEVER)
        log = self.reload(DAEMON + SLOW.replace("300ms", "fast"), "remain unchanged")
        # The recorder may have taken in the server meanwhile.
        log, = (line for line in log.splitlines() if " audit: " not in line)
        self.assertRegex(log, r"tfprofd\.ini:\d+: invalid duration 'fast': use 500ms, 2s, 1.5s or 1m; the configuration and the certificate remain unchanged")
        self.stays([])
        # The same daemon takes the next one.
        self.reload(DAEMON + SLOW, "trigger slow: changed")
        self.wait_kept(1)

    def test_triggers_come_and_go(self):
        self.begin_slow(DAEMON)
        self.assertEqual(harness.ctl(self.daemon, "snapshots").status, NO_TARGET)
        self.reload(DAEMON + SLOW, "trigger slow: added")
        self.wait_kept(1)
        self.assertEqual(len(harness.ctl(self.daemon, "snapshots", "--json").json["snapshots"]), 1)
        first = self.names()
        self.reload(DAEMON + "[trigger fast]\nmodel = canary_*\nlatency-above = 300ms\n", "trigger fast: added", "trigger slow: removed")
        self.wait_kept(2)
        self.assertRegex(self.names()[1], r"Z-fast-\d+\.tfp$")
        # One that returns is held to its interval.
        self.reload(DAEMON + SLOW, "trigger slow: added", "trigger fast: removed")
        self.stays([*first, self.names()[1]])

    def test_another_directory_and_a_recorder_that_is_off_need_a_restart(self):
        self.begin_slow(DAEMON + self.NEVER)
        log = self.reload(DAEMON + SLOW, "'snapshot-directory' has changed: restart the daemon to apply it", directory=self.directory / "others")
        self.assertIn("trigger slow: changed", log)
        self.wait_kept(1)
        self.assertFalse((self.directory / "others").exists())
        self.daemon.stop()
        # The first one's user has the other.
        self.snapshots = self.directory / "second"
        self.serve_with(DAEMON.replace("recorder = 2", "recorder = off"))
        log = self.reload(DAEMON + SLOW, "the configuration was reloaded")
        self.assertIn("'recorder' has changed: restart the daemon to apply it", log)
        self.assertIn("'[trigger]' has changed: restart the daemon to apply it", log)
        self.assertNotIn("added", log)

    def test_the_next_broker_has_the_new_triggers(self):
        self.begin_slow(DAEMON + self.NEVER)
        self.reload(DAEMON + SLOW.replace("slow", "other").replace("300ms", "60s"), "trigger other: added")
        os.kill(self.daemon.broker(), signal.SIGKILL)
        self.wait_log("another broker serves")
        self.reload(DAEMON + SLOW.replace("slow", "other"), "trigger other: changed")
        path, = self.wait_kept(1, 30)
        self.assertIn("-other-", path.name)


class Faults(TestCase):
    def test_without_space_there_is_one_message_and_nothing_is_left(self):
        self.snapshots.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k,mode=0755", "none", self.snapshots], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", self.snapshots], check=True)
        self.serve_with(DAEMON + SLOW)
        server = self.begin("--delay-decode", STALL_MS)
        client = self.start(Client, self.directory, server, MODEL, clients=1, rate=40)
        self.wait_log(rf"trigger slow: no snapshot of process {server.pid} \(native_server\): cannot write to snapshot-directory: "
                      "No space left on device; the reason for one: model canary_triggered: a request took")
        time.sleep(2)
        client.finish()
        self.assertEqual(self.daemon.stderr().count("no snapshot of"), 1)
        self.assertEqual(self.names(), [])
        self.assertEqual(os.statvfs(self.snapshots).f_bfree, os.statvfs(self.snapshots).f_blocks)

    def start_fails(self, directory):
        command = harness.run(harness.OUT / "tfprofd", "--config", self.write(DAEMON + SLOW, directory), "--foreground", "--no-listen",
                              "--socket", self.directory / "s", "--state-dir", self.directory / "state", timeout=20)
        self.assertEqual(command.status, 1, command.stderr)
        return command.stderr

    def test_a_directory_that_is_not_the_daemon_s_is_refused_at_the_start(self):
        self.snapshots.mkdir(mode=0o755)
        (self.snapshots / "mine").touch()
        self.assertRegex(self.start_fails(self.snapshots), r"the directory \S+/snapshots must belong to user \d+, and nobody else may write to it, "
                         "or be empty and root's: choose another snapshot-directory")
        (self.snapshots / "mine").unlink()
        self.snapshots.chmod(0o777)
        self.assertIn("nobody else may write to it", self.start_fails(self.snapshots))
        self.assertIn("Not a directory; choose another snapshot-directory", self.start_fails("/dev/null/x"))

    def test_the_list_is_of_a_directory_or_of_a_daemon_with_triggers(self):
        self.daemon = self.start(harness.Daemon)
        command = harness.ctl(self.daemon, "snapshots")
        self.assertEqual(command.status, NO_TARGET)
        self.assertIn("the daemon has no triggers: add a section [trigger NAME]", command.stderr)
        command = harness.ctl(None, "snapshots", self.directory / "none")
        self.assertEqual(command.status, 1)
        self.assertIn("No such file or directory", command.stderr)
        (self.directory / "x.tfp").write_bytes(os.urandom(100))
        command = harness.ctl(None, "snapshots", self.directory)
        self.assertEqual(command.status, OK)
        self.assertIn("not the snapshot of a trigger", command.stdout)


if __name__ == "__main__":
    harness.main()
