# SPDX-License-Identifier: Apache-2.0
"""Processes that appear, fork, become other programs or load a runtime late, in containers or with their files gone; and
files that are not what they were."""

import os
import pathlib
import re
import shutil
import signal
import socket
import time

# Its handlers of fork() can end a child before that runs a program.
import harness
from test_lifecycle import Lifecycle, UserRelay, function_symbols

FIXTURES = harness.BUILD / "fixtures"
NAME = "libtensorflow_framework.so.2"
# Whose processes a capture of every process takes in: nobody else on this host has any.
OWNER, OTHER = 4711, 4712
FOUND_S = 2
# The storm takes some three seconds, and it begins a second after the windows.
STORM, STORM_WINDOW_MS = 5000, 5000


def stat_fields(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def children(pid):
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            fields = stat_fields(path.name)
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] not in "ZX":
            found.append(int(path.name))
    return sorted(found)


def changed_offsets(pid, path):
    """Where, as offsets in the file, the code of a library differs from the file at path, which it is or was."""
    maps = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
    fields, = (line.split() for line in maps if f"/{NAME}" in line and "x" in line.split()[1])
    start, end = (int(word, 16) for word in fields[0].split("-"))
    offset = int(fields[2], 16)
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(start)
        mapped = memory.read(end - start)
    original = path.read_bytes()[offset:offset + len(mapped)]
    return [offset + i for i, (a, b) in enumerate(zip(mapped, original)) if a != b]


class Actor(harness.Process):
    """actor of tests/fixtures, from a directory that every user can read; pid is that of the actor itself, below
    prefix. entered: prefix makes it a child."""

    def __init__(self, directory, *actions, user=None, prefix=(), entered=False):
        as_user = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"] if user else []
        super().__init__("actor", [*as_user, *prefix, directory / "actor", *actions])
        self.wait_ready(lambda: self.line("ready"))
        self.outer = self.pid
        if entered:
            self.pid, = children(self.pid)

    def wait_did(self, action, timeout=30):
        harness.wait_until(lambda: self.line(re.escape(f"did {action}")), timeout, action)

    def go_on(self):
        os.kill(self.pid, signal.SIGUSR1)

    def stop(self, timeout=harness.STOP_TIMEOUT_S):
        # What made a namespace for it does not pass signals on.
        if self.running():
            os.killpg(self.outer, signal.SIGKILL)
        return self.popen.wait(timeout)


class Discovery(Lifecycle):
    def setUp(self):
        super().setUp()
        self.directory.chmod(0o755)
        self.before = harness.bpf_objects()
        self.files = self.directory / "files"
        self.files.mkdir()
        for name in ("actor", NAME):
            shutil.copy(FIXTURES / name, self.files)
        self.library = self.files / NAME

    def daemon_for_owner(self):
        """A daemon, and an address of it at which clients are the owner."""
        daemon = self.start(harness.Daemon, "--max-overhead", "100")
        relay = UserRelay(("127.0.0.1", daemon.port), OWNER)
        self.addCleanup(relay.close)
        return daemon, f"127.0.0.1:{relay.port}"

    def capture_all(self, daemon, address, duration_ms):
        """A capture of every process of the owner, its window open."""
        future = self.profile_later(address, duration_ms=duration_ms)
        self.wait_window(daemon)
        return future

    def actor(self, *actions, **how):
        return self.start(Actor, how.pop("directory", self.files), *actions, user=how.pop("user", OWNER), **how)

    def events_of(self, xspace, pid):
        """Events of one process; titles distinguish processes if there are several."""
        lines = xspace.lines()
        several = any(name.startswith("[") for name in lines)
        own = [events for name, events in lines.items() if not several or name.startswith(f"[{pid}] ")]
        self.assertTrue(own, f"process {pid} is in no title of {list(lines)}; {xspace.warnings}")
        return [e for events in own for e in events]

    def check_ops(self, xspace, pid, scope):
        """The process is in the trace with runs and with operations of this scope, and of no other."""
        names = {e.name for e in self.events_of(xspace, pid)}
        self.assertIn("SessionRun", names)
        scopes = {name.partition("/")[0] for name in names if "/kernel_" in name}
        self.assertEqual(scopes, {scope})

    def captured(self, daemon, pid, scope):
        """Captures one process, which must be as if nothing was special about it."""
        entry = harness.wait_target(daemon, pid, FOUND_S)
        xspace = harness.response_xspace(harness.profile(entry["address"], duration_ms=200))
        self.assertEqual((xspace.errors, xspace.warnings), ([], []))
        self.check_ops(xspace, pid, scope)
        return entry

    def check_sites(self, offsets, path):
        """A breakpoint in each probed function of that file, near its entry, and none anywhere else."""
        functions = {name: at for name, at in function_symbols(path).items() if name.startswith("_Z") and
                     ("tensorflow" in name or name.startswith("_ZN3tsl"))}
        self.assertEqual(len(functions), 29)
        for name, (address, size) in functions.items():
            self.assertEqual(sum(address <= o < address + min(size, 64) for o in offsets), 1, name)
        self.assertEqual(len(offsets), len(functions))

    def probed(self, daemon, address, pid, path, duration_ms):
        """(what has changed in the process, or the file, during a window, its trace)."""
        channel, future = self.profile_call(address, duration_ms=duration_ms, level=3)
        # A connection that stays would keep a daemon from ending at once.
        with channel:
            self.wait_window(daemon)
            offsets = changed_offsets(pid, path)
            running = re.search(r"running for (\d+\.\d) ", self.monitor(f"unix:{daemon.socket}"))
            xspace = harness.response_xspace(future.result(30))
        # It is rounded, and stays at the window's length after that has closed.
        if not running or float(running[1]) > duration_ms / 1000 - 0.1:
            raise harness.Disturbed(f"the breakpoints were not read within a window of {duration_ms} ms")
        return offsets, xspace

    def check_probes(self, daemon, pid, path, scope):
        """Captures everything in a process, by breakpoints in the functions of the file that it has mapped, which is or was at path."""
        address = harness.wait_target(daemon, pid, FOUND_S)["address"]
        offsets, xspace = harness.retry_times(3, lambda number: self.probed(daemon, address, pid, path, 1000 << number))
        self.assertEqual((xspace.errors, xspace.warnings), ([], []))
        self.check_ops(xspace, pid, scope)
        self.check_sites(offsets, path)

    def check_clean(self, daemon):
        self.assertEqual(harness.leftovers(self.before, daemon=daemon), [])
        # One that reads a file of another process of this host ends soon.
        harness.wait_until(lambda: len(daemon.pids()) == 1 + len(harness.ROLES), 10, "only the roles are left")


class Places(Discovery):
    def test_server_in_its_own_user_pid_and_mount_namespace_is_captured(self):
        daemon = self.start(harness.Daemon)
        hidden = self.directory / "hidden"
        hidden.mkdir()
        script = 'mount -t tmpfs none "$0" && cp "$1" "$0/" && shift && exec "$@"'
        kinds = ["user", "pid", "mnt"]
        # The kernel gives no user namespace to who is in a chroot; the others are tried there all the same.
        in_chroot = harness.run("unshare", "-U", "true").status != 0
        if in_chroot:
            kinds.remove("user")
            harness.skip_part(self, "servers in a user namespace: this kernel gives none here (in a chroot)")
        for user in (None,) if in_chroot else (None, OWNER):
            actor = self.actor(f"load={hidden / NAME}", user=user, entered=True,
                               prefix=["unshare", "-pfm" if in_chroot else "-Urpfm", "--mount-proc", "sh", "-c", script,
                                       hidden, self.library])
            self.assertEqual(list(hidden.iterdir()), [])
            for kind in kinds:
                self.assertNotEqual(os.readlink(f"/proc/{actor.pid}/ns/{kind}"), os.readlink(f"/proc/self/ns/{kind}"))
            entry = self.captured(daemon, actor.pid, "actor")
            self.assertEqual(entry["uid"], user or 0)
        self.check_clean(daemon)

    def test_server_on_overlayfs_is_captured_from_the_lower_and_from_the_upper_layer(self):
        daemon = self.start(harness.Daemon)
        script = ('mount -t tmpfs none "$0" && mkdir "$0/upper" "$0/work" "$0/merged" && '
                  'mount -t overlay none -o "lowerdir=$1,upperdir=$0/upper,workdir=$0/work" "$0/merged" && '
                  'if [ "$2" = upper ]; then cp -p "$1"/* "$0/merged/" && touch "$0"/merged/*; fi && '
                  'exec "$0/merged/actor" "name=$2" "load=$0/merged/$3"')
        mount = self.directory / "mount"
        mount.mkdir()
        for layer in ("lower", "upper"):
            server = self.start(harness.Process, "overlay", ["unshare", "-m", "--propagation", "private", "sh", "-c",
                                                             script, mount, self.files, layer, NAME])
            server.wait_ready(lambda: server.line("did load=.*"))
            self.assertIn(f"{mount}/merged/{NAME}", pathlib.Path(f"/proc/{server.pid}/maps").read_text())
            self.captured(daemon, server.pid, layer)
        self.check_clean(daemon)

    def test_server_whose_program_and_library_were_deleted_is_captured(self):
        actor = self.actor(f"load={self.library}")
        actor.wait_did(f"load={self.library}")
        shutil.copy(FIXTURES / "one_program", self.files / "anything")
        program = self.start(harness.Process, "one_program", [self.files / "anything"])
        program.wait_ready(lambda: program.line("ready"))
        shutil.rmtree(self.files)
        # Found by a look at every process; and by the side-band, where the files go before anybody looks.
        daemon = self.start(harness.Daemon)
        self.captured(daemon, actor.pid, "actor")
        entry = harness.wait_target(daemon, program.pid)
        xspace = harness.response_xspace(harness.profile(entry["address"], duration_ms=500))
        self.assertEqual(xspace.errors, [])
        self.assertTrue(xspace.events("SessionRun"))
        again = self.directory / "again"
        shutil.copytree(FIXTURES, again)
        later = self.actor(f"load={again / NAME}", directory=again)
        later.wait_did(f"load={again / NAME}")
        shutil.rmtree(again)
        self.captured(daemon, later.pid, "actor")
        self.check_clean(daemon)

    def test_library_replaced_on_disk_is_planned_as_each_process_has_it_mapped(self):
        daemon = self.start(harness.Daemon)
        impostor = FIXTURES / "impostor" / NAME
        old = self.actor("name=old", f"load={self.library}")
        old.wait_did(f"load={self.library}")
        shutil.copy(impostor, self.files / "new")
        os.replace(self.files / "new", self.library)
        new = self.actor("name=new", f"load={self.library}")
        for _ in range(2):
            for actor, scope, path in ((old, "old", FIXTURES / NAME), (new, "new", impostor)):
                self.captured(daemon, actor.pid, scope)
                self.check_probes(daemon, actor.pid, path, scope)
        self.check_clean(daemon)


def port_is_open(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


class Changes(Discovery):
    def test_exec_into_a_program_without_a_runtime_ends_the_target_without_a_client(self):
        daemon = self.start(harness.Daemon)
        actor = self.actor(f"load={self.library}", "wait", "exec=/bin/sleep", "60")
        entry = harness.wait_target(daemon, actor.pid, FOUND_S)
        port = int(entry["address"].rpartition(":")[2])
        self.assertTrue(port_is_open(port))
        future = self.profile_later(entry["address"], duration_ms=1500)
        self.wait_window(daemon)
        time.sleep(0.3)
        actor.go_on()
        harness.wait_until(lambda: not port_is_open(port), FOUND_S, "the port of what was a target is closed")
        self.assertEqual(pathlib.Path(f"/proc/{actor.pid}/comm").read_text(), "sleep\n")
        xspace = harness.response_xspace(future.result(30))
        self.check_ops(xspace, actor.pid, "actor")
        self.assertEqual([bool(re.match(rf"Process {actor.pid} .* executed another program", w))
                          for w in xspace.warnings], [True], xspace.warnings)
        self.assertNotIn(actor.pid, harness.ctl_targets(daemon))
        self.check_clean(daemon)

    def exec_again(self, library, prefix=()):
        daemon, address = self.daemon_for_owner()
        actor = self.actor("name=first", f"load={self.library}", "wait", f"exec={library.parent}/actor", "name=second",
                           f"load={library}", prefix=prefix)
        harness.wait_target(daemon, actor.pid, FOUND_S)
        future = self.capture_all(daemon, address, 1500)
        time.sleep(0.3)
        actor.go_on()
        xspace = harness.response_xspace(future.result(30))
        ops = sorted((e.start_ps, e.name.partition("/")[0]) for e in self.events_of(xspace, actor.pid) if "/kernel_" in e.name)
        scopes = [scope for _, scope in ops]
        self.assertEqual(set(scopes), {"first", "second"}, xspace.warnings)
        # The names of the first program's objects are not those of the second's, wherever they are.
        self.assertNotIn("first", scopes[scopes.index("second"):])
        # It goes on to the window's end: most of what is seen is the second's.
        self.assertGreater(scopes.count("second"), scopes.count("first"))
        self.assertTrue(any("executed another program" in w for w in xspace.warnings), xspace.warnings)
        self.assertEqual(self.joined(xspace), {actor.pid})
        entry = self.captured(daemon, actor.pid, "second")
        self.assertEqual(entry["file"], str(library))
        self.check_clean(daemon)

    def test_exec_into_a_program_with_another_file_of_the_runtime_joins_as_the_new_program(self):
        other = self.directory / "other"
        shutil.copytree(self.files, other)
        self.exec_again(other / NAME)

    def test_exec_into_a_program_with_the_same_file_of_the_runtime_joins_as_the_new_program(self):
        self.exec_again(self.library)

    def test_names_of_the_previous_program_are_not_used_at_equal_addresses(self):
        self.exec_again(self.library, ["setarch", "-R"])

    @staticmethod
    def joined(xspace):
        """The processes that joined according to a trace."""
        found = (re.match(r"Process (\d+) \(.*\) joined \d+\.\d+ s after the window began\.", w)
                 for w in xspace.warnings)
        return {int(m[1]) for m in found if m}

    def test_forked_workers_are_targets_of_their_own_and_join_a_capture_of_every_process(self):
        daemon, address = self.daemon_for_owner()
        # One that was there before the daemon looked would do as well; this one is seen by the side-band alone.
        actor = self.actor(f"load={self.library}", "wait", "fork=3")
        harness.wait_target(daemon, actor.pid, FOUND_S)
        future = self.capture_all(daemon, address, 1500)
        actor.go_on()
        actor.wait_did("fork=3")
        workers = children(actor.pid)
        self.assertEqual(len(workers), 3)
        xspace = harness.response_xspace(future.result(30))
        self.assertEqual(self.joined(xspace), set(workers))
        for pid in (actor.pid, *workers):
            self.check_ops(xspace, pid, "actor")
        targets = harness.ctl_targets(daemon)
        addresses = {targets[pid]["address"] for pid in (actor.pid, *workers)}
        self.assertEqual(len(addresses), 4)
        self.captured(daemon, workers[0], "actor")
        self.check_clean(daemon)

    def test_runtime_loaded_in_the_middle_of_a_capture_joins_it(self):
        daemon, address = self.daemon_for_owner()
        first = self.actor("name=first", f"load={self.library}")
        harness.wait_target(daemon, first.pid, FOUND_S)
        late = self.actor("name=late", "pause=1000", f"load={self.library}")
        future = self.capture_all(daemon, address, 2000)
        self.assertNotIn(late.pid, harness.ctl_targets(daemon))
        started = self.actor("name=started", f"load={self.library}")
        xspace = harness.response_xspace(future.result(30))
        self.assertEqual(self.joined(xspace), {late.pid, started.pid})
        for actor, scope in ((first, "first"), (late, "late"), (started, "started")):
            self.check_ops(xspace, actor.pid, scope)
        self.assertEqual(len(xspace.warnings), 2, xspace.warnings)
        self.check_clean(daemon)

    def test_no_process_joins_captures_of_named_processes_or_of_other_users(self):
        daemon, address = self.daemon_for_owner()
        first = self.actor("name=first", f"load={self.library}")
        entry = harness.wait_target(daemon, first.pid, FOUND_S)
        named = self.profile_later(entry["address"], duration_ms=2000)
        every = self.capture_all(daemon, address, 2000)
        others = [self.actor("name=other", f"load={self.library}", user=user) for user in (OTHER, None)]
        own = self.actor("name=own", f"load={self.library}")
        xspace = harness.response_xspace(named.result(30))
        self.assertEqual(xspace.warnings, [])
        self.check_ops(xspace, first.pid, "first")
        xspace = harness.response_xspace(every.result(30))
        self.assertEqual(self.joined(xspace), {own.pid})
        self.assertEqual(len(xspace.warnings), 1, xspace.warnings)
        for actor in others:
            harness.wait_target(daemon, actor.pid)
            self.assertFalse(any(re.search(rf"\b{actor.pid}\b", name) for name in xspace.lines()), list(xspace.lines()))
        self.check_clean(daemon)


FNV_START, FNV_PRIME = 0xcbf29ce484222325, 0x100000001b3


def signed(lines):
    """A stored plan of these lines, its checksum right."""
    text = "".join(line + "\n" for line in lines).encode()
    digest = FNV_START
    for byte in text:
        digest = (digest ^ byte) * FNV_PRIME % 2**64
    return text + b"end %016x\n" % digest


class Plans(Discovery):
    """What was found out of a file is used for that file alone."""

    def setUp(self):
        super().setUp()
        self.impostor = self.directory / "impostor" / NAME
        self.impostor.parent.mkdir()
        shutil.copy(FIXTURES / "impostor" / NAME, self.impostor)
        build_ids = {harness.run("readelf", "-n", path).stdout.split("Build ID: ")[1] for path in
                     (self.library, self.impostor)}
        self.assertEqual(len(build_ids), 1)
        self.assertNotEqual(*(sorted(at for name, (at, _) in function_symbols(path).items() if name.startswith("_Z"))
                              for path in (self.library, self.impostor)))

    def check(self, daemon, *libraries):
        """Captures a new process with each library, which is probed at its own functions."""
        for library in libraries:
            actor = self.actor(f"load={library}")
            self.check_probes(daemon, actor.pid, library, "actor")
            actor.stop()

    def again(self, daemon, *arguments):
        """The daemon is started again with the same state."""
        state = self.directory / "state"
        if not state.exists():
            shutil.copytree(daemon.state, state, ignore=shutil.ignore_patterns("attached-*"))
            for path in (state / "cache", *(state / "cache").iterdir()):
                shutil.copystat(daemon.state / path.relative_to(state), path)
                os.chown(path, 65534, 65534)
        daemon.stop()
        return self.start(harness.Daemon, "--state-dir", state, *arguments)

    def plan_file(self, state, library):
        """Where the plan of a library is stored."""
        path, = (state / "plans").glob(f"plan-*-{os.stat(library).st_ino:x}-*")
        return path

    def test_file_with_the_build_id_of_another_is_probed_at_its_own_functions(self):
        daemon = self.start(harness.Daemon)
        self.check(daemon, self.library, self.impostor, self.library)
        daemon = self.again(daemon)
        self.check(daemon, self.impostor, self.library)
        self.check_clean(daemon)

    def test_how_a_runtime_is_known_is_what_a_plan_found_and_no_listing_makes_one(self):
        daemon = self.start(harness.Daemon)
        actor = self.actor(f"load={self.library}")
        for _ in range(2):
            self.assertIsNone(harness.wait_target(daemon, actor.pid, FOUND_S)["knowledge"])
        # There may be some of other processes of the host.
        self.assertFalse(list((daemon.state / "plans").glob(f"plan-*-{os.stat(self.library).st_ino:x}-*")))
        harness.read_files(daemon, actor)
        self.assertEqual(harness.ctl_targets(daemon)[actor.pid]["knowledge"], "exact")
        daemon = self.again(daemon)
        self.assertEqual(harness.wait_target(daemon, actor.pid, FOUND_S)["knowledge"], "exact")
        daemon.stop()
        self.plan_file(self.directory / "state", self.library).write_bytes(b"")
        daemon = self.start(harness.Daemon, "--state-dir", self.directory / "state")
        self.assertIsNone(harness.wait_target(daemon, actor.pid, FOUND_S)["knowledge"])
        harness.read_files(daemon, actor)
        self.assertEqual(harness.ctl_targets(daemon)[actor.pid]["knowledge"], "exact")

    def test_stored_plan_of_another_file_is_not_used(self):
        daemon = self.start(harness.Daemon)
        self.check(daemon, self.library, self.impostor)
        daemon = self.again(daemon)
        paths = [self.plan_file(self.directory / "state", path) for path in (self.library, self.impostor)]
        heads, bodies = zip(*(path.read_bytes().split(b"\n", 1) for path in paths))
        for path, head, body in zip(paths, heads, reversed(bodies)):
            # The head names this file; the functions are the other one's.
            lines = body.decode().splitlines()[:-1]
            path.write_bytes(signed([head.decode(), *lines]))
        self.check(daemon, self.library, self.impostor)
        self.check_clean(daemon)

    def test_file_that_was_changed_in_place_is_planned_again(self):
        daemon = self.start(harness.Daemon)
        self.check(daemon, self.library)
        for content in (self.impostor.read_bytes(), (FIXTURES / NAME).read_bytes()):
            # Of the same size, and with its old times but for the one that nobody can set.
            size = max(self.impostor.stat().st_size, self.library.stat().st_size)
            before = self.library.stat()
            with open(self.library, "r+b") as f:
                f.write(content.ljust(size, b"\0"))
            os.utime(self.library, ns=(before.st_atime_ns, before.st_mtime_ns))
            self.assertEqual(self.library.stat().st_ino, before.st_ino)
            self.check(daemon, self.library)
        daemon = self.again(daemon)
        self.check(daemon, self.library)
        self.check_clean(daemon)

    def test_damaged_and_hostile_stored_plans_do_no_harm(self):
        daemon = self.start(harness.Daemon)
        self.check(daemon, self.library)
        stored = self.plan_file(daemon.state, self.library).read_bytes()
        lines = stored.decode().splitlines()[:-1]
        head, functions = lines[0], [line.split(" ", 5) for line in lines[1:]]
        self.assertGreaterEqual(len(functions), 20)
        self.assertEqual(signed(lines), stored)

        def moved(change):
            return signed([head, *(" ".join(change(list(f))) for f in functions)])
        by_probe = list({f[0]: f for f in functions}.values())
        hostile = {
            "empty": b"",
            "truncated": stored[:len(stored) // 2],
            "without its end": stored[:stored.rindex(b"end ")],
            "garbage": os.urandom(4096),
            "zeros": bytes(4096),
            "huge": stored + b"x" * (2 << 20),
            "wrong checksum": stored.replace(b" 36", b" 37"),
            "inside of instructions": moved(lambda f: [*f[:3], f"{int(f[3], 16) + 6:x}", *f[4:]]),
            "outside of the code": moved(lambda f: [*f[:3], "10", *f[4:]]),
            "outside the file": moved(lambda f: [*f[:3], "ffffffffffffff00", *f[4:]]),
            "other functions": signed([head, *(" ".join([f[0], *by_probe[(i + 1) % len(by_probe)][1:]])
                                               for i, f in enumerate(by_probe))]),
            "other size": moved(lambda f: [*f[:4], "ffffffffffffffff", f[5]]),
            "other symbol": moved(lambda f: [*f[:2], "4294967295", *f[3:]]),
            "other name": moved(lambda f: [*f[:5], "main"]),
            "other probe": moved(lambda f: ["4000000000", *f[1:]]),
            "other source": moved(lambda f: [f[0], "4", *f[2:]]),
            "each function a hundred times": signed([head, *(line for line in lines[1:] for _ in range(100))]),
        }
        daemon = self.again(daemon)
        path = self.plan_file(self.directory / "state", self.library)
        for what, content in hostile.items():
            self.assertNotEqual(content, stored, what)
            daemon.stop()
            path.write_bytes(content)
            daemon = self.start(harness.Daemon, "--state-dir", self.directory / "state")
            try:
                self.check(daemon, self.library)
            except Exception as error:
                raise AssertionError(f"with a stored plan that is: {what}") from error
        self.check_clean(daemon)

    def test_unusable_directory_of_plans_costs_only_time(self):
        daemon = self.start(harness.Daemon)
        harness.wait_until((daemon.state / "plans").exists, 5, "the directory")
        shutil.rmtree(daemon.state / "plans")
        self.check(daemon, self.library, self.impostor)
        self.assertFalse((daemon.state / "plans").exists())
        daemon.stop()
        elsewhere = self.directory / "elsewhere"
        state = self.directory / "state"
        for path in (elsewhere, state):
            path.mkdir(0o700)
        (state / "plans").symlink_to(elsewhere)
        daemon = self.start(harness.Daemon, "--state-dir", state)
        self.check(daemon, self.library)
        self.assertEqual(list(elsewhere.iterdir()), [])
        daemon.stop()
        (state / "plans").unlink()
        daemon = self.start(harness.Daemon, "--state-dir", state)
        harness.wait_until((state / "plans").exists, 5, "the directory")
        (state / "plans").chmod(0o500)
        self.check(daemon, self.library, self.impostor)
        # There may be some of other processes of the host, from before.
        self.assertFalse([path for path in (self.library, self.impostor) if list((state / "plans").glob(f"plan-*-{os.stat(path).st_ino:x}-*"))])
        self.check_clean(daemon)


def cpu_s(pids):
    """CPU time that processes have used."""
    return sum(sum(map(int, stat_fields(pid)[11:13])) for pid in pids) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid):
    return int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) / 1024


class Storms(Discovery):
    # Generous: with the captures that run, each role needs a tenth of a second.
    CPU_S = 0.5
    PEAK_MIB = 192

    def storm(self, action, by_target):
        daemon, address = self.daemon_for_owner()
        server = self.actor("name=server", f"load={self.library}")
        load = [f"load={self.library}"] if by_target else []
        source = self.actor("name=source", *load, "wait", f"{action}={STORM}")
        entry = harness.wait_target(daemon, server.pid, FOUND_S)
        quiet = harness.response_xspace(harness.profile(entry["address"], duration_ms=300))
        pids = daemon.pids()
        before, roles = cpu_s(pids), (daemon.broker(), daemon.front())
        every = self.capture_all(daemon, address, STORM_WINDOW_MS + 500)
        named = self.profile_later(entry["address"], duration_ms=STORM_WINDOW_MS)
        time.sleep(1)
        idle = cpu_s(pids) - before
        begin, before = time.monotonic(), [cpu_s([pid]) for pid in roles]
        source.go_on()
        source.wait_did(f"{action}={STORM}", 60)
        took = time.monotonic() - begin
        used = [cpu_s([pid]) - b for pid, b in zip(roles, before)]
        print(f"     {STORM} x {action} in {took:.2f} s: CPU time of broker {used[0]:.2f} s, front {used[1]:.2f} s "
              f"(with two captures; {idle:.2f} s in the second before)")
        self.assertLess(used[0], self.CPU_S)
        self.assertLess(used[1], self.CPU_S)
        for future in (named, every):
            xspace = harness.response_xspace(future.result(60))
            self.assertEqual(xspace.errors, [])
            self.check_ops(xspace, server.pid, "server")
        xspace = harness.response_xspace(named.result())
        self.assertEqual(xspace.warnings, [])
        ops = [e.start_ps for e in xspace.events() if e.name.startswith("server/kernel_")]
        # No gap: the server does one each millisecond and a bit; a busy host slows it.
        self.assertGreater(len(ops), 500)
        self.assertGreater(max(ops), (STORM_WINDOW_MS - 500) * 1e9)
        self.assertEqual(daemon.pids(), pids)
        for pid in pids:
            self.assertLess(peak_mib(pid), self.PEAK_MIB)
        self.assertEqual(quiet.warnings, [])
        # Who comes after it is found as ever.
        later = self.actor("name=later", f"load={self.library}")
        self.captured(daemon, later.pid, "later")
        self.check_clean(daemon)

    def test_storm_of_programs_costs_little_and_a_capture_stays_complete(self):
        self.storm("spawn", by_target=False)

    @harness.only_long
    def test_storm_of_programs_run_by_a_target_costs_little_and_a_capture_stays_complete(self):
        self.storm("spawn", by_target=True)

    def test_storm_of_a_targets_children_costs_little_and_a_capture_stays_complete(self):
        self.storm("storm", by_target=True)

    def test_target_whose_start_was_lost_in_a_storm_is_found_without_a_client(self):
        daemon = self.start(harness.Daemon)
        first, _, last = daemon.target_ports.partition("-")
        ports = range(int(first), int(last) + 1)
        open_ports = lambda: {port for port in ports if port_is_open(port)}
        before = open_ports()
        self.assertLess(len(before), len(ports), "other processes of this host took every port")
        os.kill(daemon.broker(), signal.SIGSTOP)
        try:
            # Far more than the kernel's buffers hold.
            self.actor("spawn=3000").wait_did("spawn=3000", 60)
            actor = self.actor(f"load={self.library}")
            actor.wait_did(f"load={self.library}")
        finally:
            os.kill(daemon.broker(), signal.SIGCONT)
        harness.wait_until(lambda: open_ports() - before, 2 * FOUND_S, "a port of the server's own")
        self.captured(daemon, actor.pid, "actor")
        self.check_clean(daemon)

    def test_children_beyond_the_limits_are_left_out_and_counted(self):
        daemon, address = self.daemon_for_owner()
        source = self.actor("name=source", f"load={self.library}", "wait", "idle=600")
        entry = harness.wait_target(daemon, source.pid, FOUND_S)
        pids = daemon.pids()
        future = self.capture_all(daemon, address, 3000)
        before = cpu_s(pids)
        source.go_on()
        xspace = harness.response_xspace(future.result(60))
        used = cpu_s(pids) - before
        print(f"     600 more targets: {used:.2f} s of CPU time")
        self.assertLess(used, 5 * self.CPU_S)
        self.check_ops(xspace, source.pid, "source")
        self.assertEqual(len(Changes.joined(xspace)), 15, xspace.warnings)
        left_out = [re.match(r"(\d+) more processes were left out: a capture is limited to 16\.", w) for w in xspace.warnings]
        self.assertEqual(len(xspace.warnings), 16, xspace.warnings)
        # Of as many targets as a user may have.
        self.assertGreater(sum(int(m[1]) for m in left_out if m), 100)
        self.assertEqual(daemon.pids(), pids)
        for pid in pids:
            self.assertLess(peak_mib(pid), self.PEAK_MIB)
        self.assertEqual(harness.ctl_targets(daemon)[source.pid]["address"], entry["address"])
        source.stop()
        later = self.actor("name=later", f"load={self.library}")
        self.captured(daemon, later.pid, "later")
        self.check_clean(daemon)


if __name__ == "__main__":
    harness.main()
