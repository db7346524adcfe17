#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the processes of the daemon may do, each of their threads, as the kernel reports it in every state: the table of docs/security.md.
As root."""
import os
import pathlib
import re
import signal
import time

import harness
import test_lifecycle

# linux/capability.h
CAPABILITIES = {"CAP_DAC_READ_SEARCH": 2, "CAP_SYS_PTRACE": 19, "CAP_SYS_ADMIN": 21, "CAP_PERFMON": 38, "CAP_BPF": 39, "CAP_CHECKPOINT_RESTORE": 40}
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
HALF_OF_MEMORY = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE") // 2


def documented():
    """{property in /proc: {role: cell}} of the table in the docs."""
    rows, names = {}, None
    for line in (harness.ROOT / "docs/security.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| property |"):
            names = cells[2:]
        elif names and not line.startswith("|"):
            break
        elif names and not line.startswith("|-"):
            rows[cells[1].strip("`")] = dict(zip(names, cells[2:]))
    return rows


TABLE = documented()
ROLES = tuple(TABLE["status Uid"])


def status(task):
    lines = (task / "status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def limits(task):
    return {line[:26].strip(): line[26:].split()[:2] for line in (task / "limits").read_text().splitlines()[1:]}


def mounts(task):
    """{mount point: its options}"""
    found = {}
    for line in (task / "mountinfo").read_text().splitlines():
        fields = line.split()
        found[fields[4]] = set(fields[5].split(","))
    return found


def own_namespaces(task):
    return {kind for kind in NAMESPACES if os.readlink(task / "ns" / kind) != os.readlink(f"/proc/self/ns/{kind}")}


class Checks(test_lifecycle.Lifecycle):
    def words(self, cell):
        return set(re.findall(r"[A-Za-z_/]+", cell)) - {"none"}

    def check_user(self, ids, cell, which):
        if cell == "root":
            self.assertEqual(ids, {0}, which)
            return
        name, first, last = re.fullmatch(r"`([\w-]+)`, or an unused one from (\d+) to (\d+)", cell).groups()
        field = {"Uid": 2, "Gid": 3}[which[-1]]
        named = [int(line.split(":")[field]) for line in pathlib.Path("/etc/passwd").read_text().splitlines() if line.split(":")[0] == name]
        self.assertEqual(len(ids), 1, which)
        self.assertTrue(ids <= set(named) if named else int(first) <= min(ids) <= int(last), (which, ids))

    def check_file(self, role, task, where, cell, extra):
        which = (role, task.name, where)
        kind, _, name = where.partition(" ")
        if kind == "status" and name in ("Uid", "Gid"):
            self.check_user(set(map(int, status(task)[name].split())), cell, (*which, name))
        elif kind == "status" and name == "Groups":
            want = "" if cell == "none" else status(pathlib.Path("/proc/self"))["Groups"]
            self.assertEqual(status(task)[name], want, which)
        elif kind == "status" and cell == "as started":
            self.assertEqual(status(task)[name], status(pathlib.Path("/proc/self"))[name], which)
        elif kind == "status" and name.startswith("Cap"):
            has = int(status(task)[name], 16)
            want = self.words(cell) | (extra if cell != "none" else set())
            self.assertEqual({n for n in range(64) if has >> n & 1}, {CAPABILITIES[c] for c in want}, which)
        elif kind == "status":
            self.assertEqual(status(task)[name], cell, which)
        elif kind == "ns":
            self.assertEqual(own_namespaces(task), self.words(cell), which)
        elif kind == "limits":
            want = {"half of the memory": HALF_OF_MEMORY, "as started": None, "512 MiB": str(512 << 20)}.get(cell, cell)
            got = limits(task)[name]
            if want == HALF_OF_MEMORY:
                self.assertTrue(all(abs(int(value) - want) < want / 20 for value in got), (which, got))
            elif want is not None:
                self.assertEqual(got, [want, want], which)
        elif kind == "mountinfo":
            self.check_mounts(task, cell, which)
        elif kind == "environ":
            self.assertEqual((task / "environ").stat().st_uid, 0, which)
        else:
            self.fail(f"the docs have a row that no test looks at: {where}")

    def check_mounts(self, task, cell, which):
        if cell.startswith("as the host's"):
            self.assertEqual(set(mounts(task)), set(mounts(pathlib.Path("/proc/self"))), which)
            return
        # What this host has of it, and what is mounted below /proc.
        want = {path for path in re.findall(r"`(/[\w/]*)`", cell) if os.path.exists(path)}
        found = mounts(task)
        self.assertEqual({path for path in found if not path.startswith("/proc/")}, want, which)
        for path, options in found.items():
            self.assertTrue({"ro", "nosuid", "nodev", "noexec"} <= options or path.startswith("/proc/"), (which, path, options))
        top = set(os.listdir(task / "root"))
        self.assertEqual(top, {path.split("/")[1] for path in want} - {""}, which)

    def check_roles(self, daemon, state, extra=frozenset()):
        """Every thread of every role is as the table has it. Returns the number of threads."""
        threads = 0
        self.assertGreater(len(TABLE), 12)
        # At the begin there is also the process in which the cost of probes is measured.
        harness.wait_until(lambda: len(daemon.pids()) == len(ROLES), 20, "the roles alone")
        for role in ROLES:
            pid = daemon.pid if role == "supervisor" else daemon.role(role)
            for tid in os.listdir(f"/proc/{pid}/task"):
                task = pathlib.Path(f"/proc/{pid}/task/{tid}")
                for where, cells in TABLE.items():
                    self.check_file(f"{role}, {state}", task, where, cells[role], extra)
                threads += 1
        return threads


class Roles(Checks):
    def test_every_thread_is_in_every_state_as_the_docs_have_it(self):
        daemon = self.start(harness.Daemon)
        self.check_roles(daemon, "idle")
        target = self.start(test_lifecycle.Fixture)
        address = harness.wait_target(daemon, target.pid)["address"]
        future = self.profile_later(address, duration_ms=60_000, level=3)
        self.wait_window(daemon)
        # Both have threads for it.
        self.assertGreater(self.check_roles(daemon, "capturing"), len(ROLES))
        daemon.send(signal.SIGHUP)
        harness.wait_until(lambda: "was reloaded" in daemon.stderr(), 10, "the configuration is read again")
        self.assertGreater(self.check_roles(daemon, "capturing, after SIGHUP"), len(ROLES))
        self.assertFalse(future.done())
        future.cancel()

    def test_every_thread_is_as_the_docs_have_it_while_the_recorder_runs(self):
        daemon = self.start(harness.Daemon, "--recorder", 2, "--recorder-overhead", 100, "--lifecycle")
        target = self.start(test_lifecycle.Fixture)
        harness.wait_target(daemon, target.pid)
        time.sleep(0.5)
        self.assertGreater(self.check_roles(daemon, "recording"), len(ROLES))

    def test_for_perf_events_the_broker_keeps_one_more_capability(self):
        daemon = self.start(harness.Daemon, "--probe-links", "perf-event")
        self.check_roles(daemon, "idle", {"CAP_SYS_ADMIN"})

    def test_nothing_is_up_in_the_networks_of_the_roles(self):
        daemon = self.start(harness.Daemon)
        pids = [daemon.role(role) for role in harness.ROLES]
        self.assertEqual(len({os.readlink(f"/proc/{pid}/ns/net") for pid in pids}), len(pids))
        for pid in pids:
            interfaces = harness.run("nsenter", f"--net=/proc/{pid}/ns/net", "ip", "-o", "link").stdout.splitlines()
            self.assertEqual([line.split()[1] for line in interfaces], ["lo:"])
            self.assertIn("state DOWN", interfaces[0])


class Reachable(Checks):
    """What somebody who has taken over a role can reach of the host, tried by a process that the kernel restricts in the same way."""

    @staticmethod
    def front(daemon):
        """Restricted: it answers only then."""
        harness.ctl_targets(daemon)
        return daemon.front()

    def test_the_front_cannot_reach_the_host_s_files_by_any_of_its_descriptors(self):
        daemon = self.start(harness.Daemon)
        front = self.front(daemon)
        self.assertFalse(os.path.exists(f"/proc/{front}/root/etc/shadow"))
        self.assertFalse(os.path.exists(f"/proc/{front}/root{harness.ROOT}"))
        cwd = os.readlink(f"/proc/{front}/cwd")
        self.assertEqual(cwd, "/")
        looked = 0
        for fd in os.listdir(f"/proc/{front}/fd"):
            path = f"/proc/{front}/fd/{fd}"
            if not os.path.isdir(path):
                continue
            # Of a mount of its own, whose root it is.
            directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            above = os.open("..", os.O_RDONLY | os.O_DIRECTORY, dir_fd=directory)
            self.assertTrue(os.path.samestat(os.fstat(directory), os.fstat(above)), os.readlink(path))
            os.close(above)
            os.close(directory)
            looked += 1
        self.assertGreater(looked, 0)

    def test_a_user_named_tfprofd_front_is_used_if_there_is_one(self):
        # Seen by this daemon only.
        passwd = self.directory / "passwd"
        passwd.write_text(pathlib.Path("/etc/passwd").read_text() + "tfprofd-front:x:4242:4243::/:/usr/sbin/nologin\n")
        daemon = self.start(harness.Daemon, prefix=["unshare", "-m", "sh", "-c", f'mount --bind {passwd} /etc/passwd && exec "$@"', "sh"])
        found = status(pathlib.Path(f"/proc/{self.front(daemon)}"))
        self.assertEqual((set(found["Uid"].split()), set(found["Gid"].split())), ({"4242"}, {"4243"}))
        self.assertEqual((daemon.state / "cache").stat().st_uid, 4242)

    def test_without_that_user_a_daemon_has_the_same_one_again(self):
        daemon = self.start(harness.Daemon)
        before = status(pathlib.Path(f"/proc/{self.front(daemon)}"))["Uid"]
        self.assertEqual((daemon.state / "cache").stat().st_uid, int(before.split()[0]))
        daemon.send(signal.SIGTERM)
        daemon.wait(10)
        again = self.start(harness.Process, "tfprofd", daemon.argv)
        again.wait_ready(daemon.answers, 10)
        harness.ctl_targets(daemon)
        front = next(pid for pid in harness.group_members(again.pid) if harness.name_of(pid) == "tfprofd-front")
        self.assertEqual(status(pathlib.Path(f"/proc/{front}"))["Uid"], before)

    def test_where_namespaces_are_forbidden_landlock_keeps_the_front_from_files(self):
        prefix = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
        daemon = self.start(harness.Daemon, prefix=prefix)
        front = self.front(daemon)
        self.assertEqual(own_namespaces(pathlib.Path(f"/proc/{front}")), set())
        self.assertEqual(status(pathlib.Path(f"/proc/{front}"))["Seccomp"], "2")
        self.assertIn("cannot leave the host's file system", daemon.stderr())
        target = self.start(test_lifecycle.Fixture)
        address = harness.wait_target(daemon, target.pid)["address"]
        self.assertEqual(harness.response_xspace(harness.profile(address, duration_ms=200)).errors, [])


if __name__ == "__main__":
    harness.main()
