# SPDX-License-Identifier: Apache-2.0
"""What end-to-end tests, the demo and the benches share: real servers, a real TensorBoard, the daemon and its command
line, and ways to look at what they answer.

A test file holds unittest.TestCase classes, derived from harness.TestCase, and ends with harness.main().
"""
import contextlib
import ctypes
import dataclasses
import functools
import glob
import gzip
import http.client
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
import unittest
import urllib.parse

# By default TensorFlow uses other ops on CPUs that support them well, and logs it; a prefix of env TF_ENABLE_ONEDNN_OPTS=1 enables these.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
# Before grpc is imported: its handler of forks has aborted a child between fork and exec.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
# tests run against another build, such as build/san, when asked to
OUT = ROOT / os.environ.get("OUT", "build")
PYTHON = BUILD / "venv/bin/python"
MODELS = BUILD / "models"
LOGS = BUILD / "logs"
SERVERS = ROOT / "tests/servers"
BPFTOOL = shutil.which("bpftool", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") or "bpftool"

READY_TIMEOUT_S = 120
STOP_TIMEOUT_S = 15
ANSWER_TIMEOUT_S = 120

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


# make long: what takes long is done in full.
LONG = bool(os.environ.get("CHECK_LONG"))
# Beside other tests a process also waits for its CPU: it has so many times as long. What is held to a time runs alone.
PATIENCE = 4 if os.environ.get("CHECK_BESIDE") else 1


class HarnessError(Exception):
    """Something that a test relies on did not work; names the log to read."""


class Late(HarnessError):
    """A daemon had no answer yet."""


class Disturbed(AssertionError):
    """Two measurements of one time differ: other work on the machine can be the reason."""


def retry_times(attempts, function):
    """Calls function(attempt) again, up to so many times in all, where a measured time was not what it should be. Nothing else is tried
    again: not a wrong number, not a name, not a loss."""
    for attempt in range(attempts):
        try:
            return function(attempt)
        except Disturbed as error:
            if attempt == attempts - 1:
                raise
            print(f"     once more: {error}")
    return None


def slope(samples):
    """The median growth from one sample to the next: a single step, as allocators make, is not growth."""
    return statistics.median(b - a for a, b in zip(samples, samples[1:]))


@contextlib.contextmanager
def paused(*processes):
    """Loads leave the CPUs to what is done within."""
    for process in processes:
        process.send(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            process.send(signal.SIGCONT)


def free_port():
    """A port of 127.0.0.1 that nothing listens on."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def free_ports(count):
    """The first of so many free ports in a row."""
    for first in range(20000 + os.getpid() % 10000, 60000, count):
        try:
            for port in range(first, first + count):
                with socket.socket() as s:
                    s.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
    raise HarnessError(f"no {count} free ports in a row")


def wait_until(condition, timeout, what):
    """Returns what condition() gives once it is true."""
    timeout *= PATIENCE
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise HarnessError(f"{what}: not within {timeout} s")
        time.sleep(0.02)


class Process:
    """A program in a process group of its own, its output in build/logs. It ends with this one, unless it is kept."""

    count = 0

    def __init__(self, name, argv, keep=False, env=None, pass_fds=()):
        Process.count += 1
        LOGS.mkdir(parents=True, exist_ok=True)
        stem = LOGS / f"{os.getpid()}-{Process.count:03}-{name}"
        self.name = name
        self.stdout_path, self.stderr_path = stem.with_suffix(".out"), stem.with_suffix(".err")
        self.argv = [str(a) for a in argv]
        parent = os.getpid()

        def end_with_parent():
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:
                os._exit(1)

        with open(self.stdout_path, "wb") as out, open(self.stderr_path, "wb") as err:
            self.popen = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=ROOT,
                                          start_new_session=True, preexec_fn=None if keep else end_with_parent, pass_fds=pass_fds,
                                          env={**os.environ, **(env or {})})
        self.pid = self.popen.pid

    def stdout(self):
        return self.stdout_path.read_text(errors="replace")

    def stderr(self):
        return self.stderr_path.read_text(errors="replace")

    def running(self):
        return self.popen.poll() is None

    def fail(self, what):
        raise HarnessError(f"{self.name}: {what}; its last words in {self.stderr_path}:\n{self.stderr()[-2000:]}")

    def wait_ready(self, condition, timeout=READY_TIMEOUT_S):
        """Waits for condition(), or raises when the program ends or the time is over; cleans up then."""
        end = time.monotonic() + timeout
        while True:
            value = condition()
            if value:
                return value
            if not self.running() or time.monotonic() > end:
                ended = not self.running()
                self.stop()
                self.fail(f"ended with {self.popen.returncode} before it was ready" if ended else
                          f"not ready within {timeout} s")
            time.sleep(0.05)

    def line(self, pattern, text=None):
        """The match of a whole line of its standard output."""
        return re.search(rf"^{pattern}$", self.stdout() if text is None else text, re.MULTILINE)

    def wait(self, timeout):
        """Its exit status once it has ended by itself."""
        try:
            return self.popen.wait(timeout * PATIENCE)
        except subprocess.TimeoutExpired:
            self.fail(f"still runs after {timeout * PATIENCE} s")

    def send(self, number):
        """Sends it a signal, unless it has ended."""
        if self.running():
            os.kill(self.pid, number)

    def stop(self, timeout=STOP_TIMEOUT_S):
        """Ends it by SIGTERM, then the rest of its group by SIGKILL. Returns its exit status (negative: the signal)."""
        self.send(signal.SIGTERM)
        # One that was paused would not notice.
        self.send(signal.SIGCONT)
        try:
            self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            pass
        # The group outlives its leader while it has members, and its number is not given to another one.
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        return self.popen.wait()


class Server(Process):
    """A test server; .port is where it serves, .workers are the processes that it has forked for that, if any, and .profiler_address is HOST:PORT of its
    in-process profiler, None without."""

    def __init__(self, name, argv, prefix, profiler, keep):
        self.profiler_address = None
        if profiler:
            port = free_port()
            self.profiler_address = f"127.0.0.1:{port}"
            argv = [*argv, "--profiler-port", port]
        super().__init__(name, [*prefix, *argv], keep)
        self.wait_ready(lambda: self.line("ready"))
        self.port = int(m[1]) if (m := self.line(r"listening on (\d+)")) else None
        self.workers = [int(pid) for pid in re.findall(r"^worker (\d+)$", self.stdout(), re.MULTILINE)]


class NativeServer(Server):
    """The server in C. prefix is put before its command (["unshare", "-m"]); self_load threads run the models by
    themselves, with rows instances at a time, and http=False then leaves out the REST API; with reload, each of its
    threads loads the next model after so many runs. arguments are more of its command line; with --grpc-port among
    them, .grpc_port is that of its gRPC API."""

    def __init__(self, models=("half_plus_two", "layered"), prefix=(), profiler=False, self_load=0, rows=1, http=True,
                 reload=0, keep=False, arguments=()):
        argv = [BUILD / "servers/native_server", *(["--port", 0] if http else []),
                *(["--self-load", self_load, "--rows", rows] if self_load else []),
                *(["--reload", reload] if reload else []), *arguments, *(MODELS / m for m in models)]
        super().__init__("native_server", argv, prefix, profiler, keep)
        self.grpc_port = int(m[1]) if (m := self.line(r"grpc on (\d+)")) else None

    def runs_per_s(self, seconds):
        """Runs per second of the self load, over so many seconds from now on."""
        def report():
            before = self.stdout().count("self-load:")
            self.send(signal.SIGUSR1)
            wait_until(lambda: self.stdout().count("self-load:") > before, 10, "a report of the self load")
        report()
        time.sleep(seconds)
        report()
        return float(re.findall(r"([\d.]+) runs/s", self.stdout())[-1])

    def load_argv(self, model, clients=1):
        return load_argv(["--rest", f"http://127.0.0.1:{self.port}"], model, clients)


class GrpcServer(Server):
    """The server in Python."""

    def __init__(self, models=("half_plus_two", "layered"), prefix=(), profiler=False, keep=False, arguments=()):
        argv = [PYTHON, SERVERS / "grpc_server.py", *arguments, *(MODELS / m for m in models)]
        super().__init__("grpc_server", argv, prefix, profiler, keep)

    def load_argv(self, model, clients=1):
        return load_argv(["--grpc", f"127.0.0.1:{self.port}"], model, clients)


class HttpServer(Server):
    """The server in Python that has a thread for each connection."""

    def __init__(self, models=("half_plus_two",), keep=False, arguments=(), prefix=(), profiler=False):
        argv = [PYTHON, SERVERS / "http_server.py", *arguments, *(MODELS / m for m in models)]
        super().__init__("http_server", argv, prefix, profiler, keep)

    load_argv = NativeServer.load_argv


def load_argv(where, model, clients):
    return [PYTHON, SERVERS / "load.py", *where, "--model", model, "--clients", clients]


class Load(Process):
    """Requests to a server, by load.py: until finish(), or so many of them (then finish() waits for the last)."""

    def __init__(self, server, model="half_plus_two", clients=1, count=None):
        self.bounded = count is not None
        amount = ["--count", count] if self.bounded else ["--duration", 600]
        super().__init__("load", [*server.load_argv(model, clients), *amount])
        self.wait_ready(lambda: self.line("started", self.stderr()))

    def finish(self, timeout=ANSWER_TIMEOUT_S):
        """What load.py found, as a dict: requests, errors, requests_per_s, p50_ms, p99_ms…"""
        if not self.bounded:
            self.send(signal.SIGTERM)
        self.wait(timeout)
        try:
            return json.loads(self.stdout())
        except ValueError:
            self.fail("no result")


# Of a load that its test ends.
LOAD_MAX_S = 600


class LoadClient(Process):
    """Requests to a server by load_client, whose log has for each when it was sent and answered. rest: whether port
    is that of a REST API; prefix is put before its command, and arguments are more of its command line."""

    def __init__(self, port, rest, log, *arguments, prefix=()):
        self.log = pathlib.Path(log)
        self.is_endless = not {"--count", "--duration"} & set(arguments)
        super().__init__("load_client", [*prefix, BUILD / "servers/load_client", "--rest" if rest else "--grpc",
                                         f"127.0.0.1:{port}", "--log", log, "--wait-start", *arguments,
                                         *(["--duration", LOAD_MAX_S] if self.is_endless else [])])
        self.wait_ready(lambda: self.line("connected"))

    def finish(self, timeout=ANSWER_TIMEOUT_S):
        """Ends it, unless it does so by itself, and returns its log."""
        if self.is_endless:
            self.send(signal.SIGTERM)
        if status := self.wait(timeout):
            self.fail(f"ended with {status}: {self.stdout()[-500:]}")
        return [json.loads(line) for line in self.log.read_text().splitlines()]


# Processes of a daemon: the supervisor and its roles.
ROLES = "broker", "front", "prover"
# The kernel runs a program once at a time on a CPU. What an interrupt would have added meanwhile is not lost for a test that finds all it looks for.
SKIPPED = r"^Up to \d+ records are missing because the kernel skipped BPF programs: "


# After a capture most tests look for what it has left behind.
KEEP_PROGRAMS = "--keep-programs"


class Daemon(Process):
    """tfprofd with a socket, ports and state of its own. .address is host:port for every target, .socket a path.
    It keeps no programs for a next capture, unless the arguments say so."""

    # Others' processes have some, too.
    TARGET_PORTS = 24
    # What a probe costs on this machine, as a daemon measured it: each has a state of its own, and would measure it again at its first capture.
    CALIBRATION = BUILD / "calibration"
    # How often others may take a port between the look at it and the daemon's start.
    PORTS_TAKEN_MAX = 3

    def __init__(self, *arguments, prefix=(), keep=False):
        for left in reversed(range(self.PORTS_TAKEN_MAX + 1)):
            try:
                self.begin(prefix, arguments, keep)
                return
            except HarnessError:
                if not left or f"cannot listen on {self.address}: Address already in use" not in self.stderr():
                    raise

    def begin(self, prefix, arguments, keep):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="tfprofd-"))
        # Other users' clients must reach the socket: who may use it is the daemon's to decide.
        self.directory.chmod(0o755)
        self.socket = self.directory / "tfprofd.sock"
        self.state = self.directory / "state"
        if not prefix and self.CALIBRATION.exists():
            (self.state / "cache").mkdir(parents=True)
            shutil.copy(self.CALIBRATION, self.state / "cache/calibration")
        first = free_ports(self.TARGET_PORTS + 1)
        self.port = first
        self.address = f"127.0.0.1:{first}"
        self.target_ports = f"{first + 1}-{first + self.TARGET_PORTS}"
        try:
            super().__init__("tfprofd", [*prefix, OUT / "tfprofd", "--socket", self.socket, "--listen", self.address,
                                         "--target-ports", self.target_ports, "--state-dir", self.state, "--foreground",
                                         *(() if KEEP_PROGRAMS in arguments else (KEEP_PROGRAMS, "no")), *arguments], keep)
        except OSError:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise
        self.wait_ready(self.answers)

    def answers(self):
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(str(self.socket))
            return True
        except OSError:
            return False

    def pids(self):
        """The roles of the daemon: the process that was started, and its children. Not those that read one file and end."""
        members = {int(p) for p in group_members(self.pid)}
        return sorted(pid for pid in members if pid == self.pid or (parent := parent_of(pid)) == self.pid or parent not in members)

    def role(self, name):
        """The process of a role: "broker" attaches probes, "front" serves clients, "prover" reads files; .pid is the supervisor."""
        return next(pid for pid in self.pids() if name_of(pid) == f"tfprofd-{name}")

    def roles(self):
        """{name: pid} of those that are there."""
        named = {}
        for pid in self.pids():
            with contextlib.suppress(OSError):  # it has just ended
                named[name_of(pid).removeprefix("tfprofd-")] = pid
        return {"supervisor": self.pid, **{name: named[name] for name in ROLES if name in named}}

    def wait_roles(self, replaced=(), timeout=5):
        """roles(), when all are there and none of the replaced ones is."""
        complete = lambda found: len(found) == 1 + len(ROLES) and not set(replaced) & set(found.values()) and found
        return wait_until(lambda: complete(self.roles()), timeout, "all roles")

    def front(self):
        return self.role("front")

    def broker(self):
        return self.role("broker")

    def keep_calibration(self):
        """For later daemons, which measure it themselves after another boot, and where probes are linked in another way."""
        measured = self.state / "cache/calibration"
        with contextlib.suppress(OSError):
            text = measured.read_text()
            if text.split()[1] == "0" and not (self.CALIBRATION.exists() and self.CALIBRATION.read_text().split()[0] == text.split()[0]):
                # Others may read it meanwhile.
                new = pathlib.Path(f"{self.CALIBRATION}.{os.getpid()}")
                new.write_text(text)
                new.rename(self.CALIBRATION)

    def stop(self, timeout=STOP_TIMEOUT_S):
        status = super().stop(timeout)
        self.keep_calibration()
        shutil.rmtree(self.directory, ignore_errors=True)
        return status


def name_of(pid):
    return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()


def parent_of(pid):
    """0: it has ended."""
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def group_members(group):
    """Processes in a process group that are alive."""
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            fields = pathlib.Path(path).read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] not in "ZX":
            yield int(path.split("/")[2])


def descendants(pid):
    """A process's children, and theirs."""
    found, parents = {pid}, {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            parents[int(path.split("/")[2])] = int(pathlib.Path(path).read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


@dataclasses.dataclass
class Command:
    """What a command did."""
    status: int
    stdout: str
    stderr: str

    @property
    def json(self):
        return json.loads(self.stdout)


def run(*argv, timeout=ANSWER_TIMEOUT_S, user=None, env=None):
    """Runs a command to its end; user is a uid to run it as, which need not be able to reach the tree."""
    argv = [str(a) for a in argv]
    with tempfile.TemporaryDirectory(prefix="tfprofd-bin-") as public:
        if user is not None:
            os.chmod(public, 0o755)
            # With the program beside it, which tfprofctl looks for there.
            for name in {pathlib.Path(argv[0]).name, "tfprofd"} if pathlib.Path(argv[0]).parent == OUT else ():
                shutil.copy(OUT / name, public)
            argv[0] = str(pathlib.Path(public) / pathlib.Path(argv[0]).name)
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              cwd=ROOT if user is None else "/", timeout=timeout, user=user, group=user,
                              extra_groups=[] if user is not None else None, env={**os.environ, **(env or {})})
    return Command(done.returncode, done.stdout, done.stderr)


def ctl(daemon, *arguments, **how):
    """Runs tfprofctl against a daemon, or without one when it is None."""
    where = ["--daemon", f"unix:{daemon.socket}"] if daemon else []
    return run(OUT / "tfprofctl", *where, *arguments, **how)


def ctl_targets(daemon):
    """The daemon's targets, by pid."""
    command = ctl(daemon, "targets", "--json")
    if command.status:
        raise (Late if "no answer within the time given" in command.stderr else HarnessError)(f"tfprofctl targets ended with {command.status}: {command.stderr}")
    found = command.json
    return {target["pid"]: target for target in (found["targets"] if isinstance(found, dict) else found)}


def state_of(pid):
    """What a process is doing, for the message of a test that failed."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        mapped = {pathlib.Path(words[5]).name for words in map(str.split, open(f"/proc/{pid}/maps")) if len(words) > 5 and "x" in words[1]}
    except OSError as error:
        return f"it has ended ({error.strerror})"
    return " ".join(re.findall(r"^(?:Name|State|PPid):.*", status, re.M)) + f", {len(mapped)} files mapped: {', '.join(sorted(mapped)[:8])}"


def wait_target(daemon, pid, timeout=10):
    """The daemon's entry for a process, once it has found it."""
    def entry():
        try:
            return ctl_targets(daemon).get(pid)
        except Late:
            return None
    try:
        return wait_until(entry, timeout, f"tfprofd finds process {pid}")
    except HarnessError as error:
        found = ", ".join(f"{target['pid']} ({target['name']})" for target in ctl_targets(daemon).values())
        raise HarnessError(f"{error}; {state_of(pid)}; found: {found or 'none'}; the daemon's log ends with: {daemon.stderr()[-500:]}") from error


def wait_recorded(daemon, pid, timeout=15):
    """Whatever else may be recorded on this host."""
    wait_until(lambda: any(t["pid"] == pid and t["measured"] for t in ctl(daemon, "status", "--json").json["targets"]), timeout,
               f"the recorder records process {pid}")


def read_files(daemon, server):
    """What a daemon reads of the server's libraries, which may take a second, it has read after this: a window opens when it shall."""
    command = ctl(daemon, "plan", "--pid", server.pid)
    if command.status:
        raise HarnessError(f"no plan: {command.stderr}")


def ctl_capture(daemon, pids, logdir, *arguments, duration="2s", **how):
    """Captures into logdir by tfprofctl; the Command has its JSON summary."""
    which = [word for pid in pids for word in ("--pid", pid)]
    return ctl(daemon, "capture", *which, "--duration", duration, "-o", logdir, "--json", *arguments, **how)


def xspace_files(logdir):
    """The XSpace files under a log directory, oldest first."""
    return sorted(pathlib.Path(logdir).glob("plugins/profile/*/*.xplane.pb"), key=lambda p: p.stat().st_mtime)


def table_rows(table):
    """The rows of a page's table, as dicts by column id."""
    names = [column["id"] for column in table["cols"]]
    return [dict(zip(names, (cell and cell.get("v") for cell in row["c"]))) for row in table.get("rows") or []]


class TensorBoard(Process):
    """The unmodified TensorBoard with its Profile plugin on a log directory."""

    def __init__(self, logdir, keep=False):
        self.logdir = pathlib.Path(logdir)
        self.logdir.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.url = f"http://localhost:{self.port}/#profile"
        super().__init__("tensorboard", [BUILD / "venv/bin/tensorboard", "--logdir", logdir, "--host", "127.0.0.1",
                                         "--port", self.port, "--load_fast=false"], keep, {"TF_CPP_MIN_LOG_LEVEL": "1"})
        self.wait_ready(self.answers)

    def answers(self):
        try:
            return self.get("version")[0] == 200
        except OSError:
            return False

    def get(self, route, timeout=ANSWER_TIMEOUT_S, **query):
        """GET of a route of the Profile plugin: (HTTP status, body as bytes)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request("GET", f"/data/plugin/profile/{route}?{urllib.parse.urlencode(query)}")
            response = connection.getresponse()
            body = response.read()
            # The plugin compresses whether it was asked to or not.
            return response.status, gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body
        finally:
            connection.close()

    def get_json(self, route, **query):
        status, body = self.get(route, **query)
        if status != 200:
            raise HarnessError(f"TensorBoard answers {route} with {status}: {body[:300]!r}")
        return json.loads(body)

    def capture(self, address, duration_ms=2000, level=2, retries=1, workers=""):
        """What the capture dialog does: (HTTP status, its message)."""
        status, body = self.get("capture_profile", duration_ms / 1e3 * (retries + 1) + ANSWER_TIMEOUT_S,
                                service_addr=address, is_tpu_name="false", duration=duration_ms, num_retry=retries,
                                worker_list=workers, host_tracer_level=level, device_tracer_level=0, python_tracer_level=0,
                                delay=0)
        try:
            answer = json.loads(body)
        except ValueError:
            return status, body.decode(errors="replace")
        return status, answer.get("result") or answer.get("error") or body.decode(errors="replace")

    def runs(self):
        return self.get_json("runs")

    def tools(self, run_name):
        return self.get_json("run_tools", run=run_name)

    def hosts(self, run_name, tag="trace_viewer@"):
        return [h["hostname"] for h in self.get_json("hosts", run=run_name, tag=tag)]

    def page(self, run_name, tool):
        """The data of a page, of all hosts where the page can show them at once."""
        return self.get_json("data", run=run_name, tag=tool, host=self.hosts(run_name, tool)[-1])

    def op_stats(self, run_name):
        """Framework Op Stats without idle time, as a list of dicts by column id."""
        return table_rows(self.page(run_name, "framework_op_stats")[1])

    def trace(self, run_name):
        """The events that the trace viewer shows, as Chrome trace events."""
        hosts = ",".join(self.hosts(run_name))
        return self.get_json("data", run=run_name, tag="trace_viewer@", hosts=hosts, host=hosts)["traceEvents"]

    def counters(self, run_name):
        return counters(self.trace(run_name))


def client_trace(address, logdir, duration_ms=2000, timeout=ANSWER_TIMEOUT_S):
    """Captures by TensorFlow's own client, in a process of its own."""
    program = ("import sys, tensorflow as tf; tf.profiler.experimental.client.trace("
               "sys.argv[1], sys.argv[2], int(sys.argv[3]), num_tracing_attempts=1)")
    return run(PYTHON, "-c", program, f"grpc://{address}", logdir, duration_ms, timeout=timeout,
               env={"TF_CPP_MIN_LOG_LEVEL": "2"})


def profiler_service():
    """The classes that protoc made of lib/proto/profiler_service.proto."""
    path = str(BUILD / "gen/python")
    if path not in sys.path:
        sys.path.insert(0, path)
    import profiler_service_pb2
    return profiler_service_pb2


def rpc(address, method, request, response_class, service="tensorflow.ProfilerService"):
    """Starts a unary call and returns (channel, future); address is HOST:PORT or unix:PATH."""
    import grpc

    channel = grpc.insecure_channel(address, options=[
        ("grpc.max_receive_message_length", -1), ("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)])
    call = channel.unary_unary(f"/{service}/{method}", request_serializer=lambda m: m.SerializeToString(),
                               response_deserializer=response_class.FromString)
    return channel, call.future(request, timeout=ANSWER_TIMEOUT_S)


def profile_request(duration_ms=2000, level=2, emit_xspace=True, start_timestamp_ns=0, session_id="e2e"):
    service = profiler_service()
    options = service.ProfileOptions(version=1, host_tracer_level=level, duration_ms=duration_ms,
                                     start_timestamp_ns=start_timestamp_ns)
    return service.ProfileRequest(duration_ms=duration_ms, opts=options, emit_xspace=emit_xspace, session_id=session_id,
                                  repository_root=str(BUILD / "logs"), host_name="e2e")


def profile(address, timeout=ANSWER_TIMEOUT_S, **request):
    """A raw Profile call: the ProfileResponse; raises grpc.RpcError."""
    channel, future = rpc(address, "Profile", profile_request(**request), profiler_service().ProfileResponse)
    with channel:
        return future.result(timeout)


def response_xspace(response):
    """The XSpace in a ProfileResponse, in whichever field it came."""
    data = response.xspace or next((t.data for t in response.tool_data if t.name.endswith("xplane.pb")), b"")
    return XSpace(data)


def xplane_class():
    """TensorFlow's own XSpace class, loaded from the wheel's file: importing all of TensorFlow takes seconds."""
    if "tfprofd_xplane" not in sys.modules:
        packages = BUILD / "venv/lib/python3*/site-packages"
        path = glob.glob(str(packages / "tensorflow/tsl/profiler/protobuf/xplane_pb2.py"))[0]
        spec = importlib.util.spec_from_file_location("tfprofd_xplane", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules["tfprofd_xplane"] = module
    return sys.modules["tfprofd_xplane"].XSpace


OP_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*:[A-Z_][A-Za-z0-9_]*|_[A-Za-z0-9_/>-]*:_(Arg|Retval)")


class Event:
    """start_ps is since the capture began: the line's timestamp and the event's offset. Stats are read when they are asked for: few are."""

    def __init__(self, name, start_ps, message, stat_names):
        self.name, self.start_ps, self.duration_ps = name, start_ps, message.duration_ps
        self.message, self.stat_names = message, stat_names

    @functools.cached_property
    def stats(self):
        return stats_of(self.message.stats, self.stat_names)


def stats_of(stats, names):
    """{name: value}; names are those of a plane's stats."""
    values = {}
    for stat in stats:
        kind = stat.WhichOneof("value")
        value = getattr(stat, kind) if kind else None
        values[names.get(stat.metadata_id, "?")] = names.get(value, "?") if kind == "ref_value" else value
    return values


def convert(path, tool, **parameters):
    """The data of a page, as the Profile plugin's own converters make it of an XSpace, here."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # read when they are loaded
    from xprof.convert import raw_to_tool_data
    host = pathlib.Path(path).name.split(".")[0]
    data, _ = raw_to_tool_data.xspace_to_tool_data([str(path)], tool, {"use_saved_result": False, "hosts": [host], "host": host, **parameters})
    return json.loads(data)


class Pages:
    """The pages of one file, by the plugin's converters and without a TensorBoard around them."""

    def __init__(self, path):
        self.path = path

    def page(self, tool):
        return convert(self.path, tool)

    def op_stats(self):
        return table_rows(self.page("framework_op_stats")[1])

    def trace(self):
        # As many events as TensorBoard asks for.
        return convert(self.path, "trace_viewer@", trace_viewer_options={"resolution": 8000})["traceEvents"]

    def counters(self):
        return counters(self.trace())


def counters(trace):
    """The curves that the trace viewer draws: [(us, value)] by name."""
    return {e["name"]: [tuple(entry) for entry in e["entries"]] for e in trace if e.get("ph") == "C"}


def diagnostics(overview):
    """The rows of Overview's diagnostics: [(severity, text)]."""
    table = next(t for t in overview if [c["id"] for c in t.get("cols") or []] == ["severity", "message"])
    return [(row["severity"], row["message"]) for row in table_rows(table)]


def warnings_of(proto):
    """Those about problems: advice, and notes of truncated requests, are among them, too."""
    return [w for w in proto.warnings if not w.startswith(("Advice: ", "Note: "))]


class XSpace:
    """A capture, read. planes: {plane name: {line name: [Event]}}, lines of one name being distinguished by "#id";
    plane_stats: {plane name: {stat: value}}; errors and hostnames as in the message, which is in .proto; warnings, advice and notes apart."""

    def __init__(self, source):
        data = source if isinstance(source, bytes) else pathlib.Path(source).read_bytes()
        self.size = len(data)
        self.proto = xplane_class().FromString(data)
        self.errors = list(self.proto.errors)
        self.warnings = warnings_of(self.proto)
        self.advice, self.notes = ([w for w in self.proto.warnings if w.startswith(start)] for start in ("Advice: ", "Note: "))
        self.hostnames = list(self.proto.hostnames)
        self.planes, self.plane_stats = {}, {}
        for plane in self.proto.planes:
            names, stat_names = ({key: entry.name for key, entry in metadata.items()} for metadata in (plane.event_metadata, plane.stat_metadata))
            self.plane_stats[plane.name] = stats_of(plane.stats, stat_names)
            lines = self.planes.setdefault(plane.name, {})
            for line in plane.lines:
                name, base = line.display_name or line.name, line.timestamp_ns * 1000
                lines[name if name not in lines else f"{name}#{line.id}"] = \
                    [Event(names[e.metadata_id], base + e.offset_ps, e, stat_names) for e in line.events]

    def lines(self, plane="/host:CPU"):
        return self.planes.get(plane, {})

    def events(self, name=None, plane="/host:CPU"):
        """Every event of a plane, or those of one name."""
        return [e for events in self.lines(plane).values() for e in events if name is None or e.name == name]

    def op_events(self):
        """{"scope/op:Type": [Event, …]} of every op event, those of a name by their starts."""
        found = {}
        for e in self.events():
            found.setdefault(e.name, []).append(e)
        found = {name: events for name, events in found.items() if "::" not in name and OP_NAME.fullmatch(name)}
        for events in found.values():
            events.sort(key=lambda e: e.start_ps)
        return found

    def ops(self):
        """{"scope/op:Type": [duration_ps, …]}, likewise."""
        return {name: [e.duration_ps for e in events] for name, events in self.op_events().items()}


def bpf_objects():
    """Every BPF link and program, and every perf event with one, of the host: {(kind, id): description}.
    The kernel answers EAGAIN for a link that another process is just making: asked again for up to 2 s."""
    found = {}
    for kind in ("link", "prog"):
        end = time.monotonic() + 2
        while (command := run(BPFTOOL, "-j", kind, "show")).status:
            if "temporarily unavailable" not in command.stdout + command.stderr or time.monotonic() > end:
                raise HarnessError(f"bpftool {kind} show: {command.stderr or command.stdout}")
            time.sleep(0.02)
        for entry in json.loads(command.stdout or "[]"):
            found[kind, entry["id"]] = entry
    command = run(BPFTOOL, "-j", "perf", "show")
    for entry in json.loads(command.stdout or "[]") if not command.status else []:
        found["perf", entry.get("pid"), entry.get("fd")] = entry
    return found


def verified_instructions(daemon):
    """{name: how many instructions the kernel's verifier went through} of the BPF programs that the daemon holds."""
    names = {entry["id"]: entry.get("name") for (kind, *_), entry in bpf_objects().items() if kind == "prog"}
    found = {}
    for path in (path for pid in daemon.pids() for path in glob.glob(f"/proc/{pid}/fdinfo/*")):
        with contextlib.suppress(OSError):
            text = pathlib.Path(path).read_text()
            if m := re.search(r"^prog_id:\s*(\d+)(?:\n.*)*?\nverified_insns:\s*(\d+)", text, re.MULTILINE):
                found[names.get(int(m[1]))] = int(m[2])
    return found


def bpf_holders():
    """The living processes that hold a BPF link or program by a descriptor: {(kind, id): {pid}}."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/fdinfo/*"):
        try:
            text = pathlib.Path(path).read_text()
        except OSError:
            continue
        for m in re.finditer(r"^(link|prog)_id:\s*(\d+)$", text, re.MULTILINE):
            found.setdefault((m[1], int(m[2])), set()).add(int(path.split("/")[2]))
    return found


def leftovers(before, timeout=3, daemon=None):
    """The BPF links, programs and perf events that exist now and did not in before, an answer of bpf_objects(), and that a daemon holds,
    or without one any process that this one started, or nobody. Waits up to timeout seconds until there are none, as probes are
    detached after a capture was answered. What other living processes hold is theirs, such as another tfprofd's."""
    end = time.monotonic() + timeout * PATIENCE
    while True:
        objects = bpf_objects()
        own = set(group_members(daemon.pid)) if daemon else descendants(os.getpid())
        held = {key for key, pids in bpf_holders().items() if not pids & own}
        programs = {objects[key].get("prog_id") for key in held if key[0] == "link" and key in objects}
        held |= {("prog", number) for number in programs}
        now = bpf_objects()
        objects = {key: entry for key, entry in objects.items() if key in now and key not in held and
                   (key[0] != "perf" or key[1] in own)}
        found = [f"{key[0]} {entry}" for key, entry in objects.items() if key not in before]
        if not found or time.monotonic() > end:
            return found
        time.sleep(0.1)


def only_long(test):
    """A test of make long."""
    return test if LONG else None


class TestCase(unittest.TestCase):
    """A test with a directory of its own; what it starts by start() is stopped after it, the last first."""

    maxDiff = 2000

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="tfprofd-e2e-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def assert_on_overview(self, xspace, texts):
        """TensorBoard shows these sentences of it."""
        path = self.directory / "overview.xplane.pb"
        path.write_bytes(xspace.proto.SerializeToString())
        shown = [text for _, text in diagnostics(convert(path, "overview_page"))]
        self.assertEqual([text for text in texts if text not in shown], [])
        self.assertTrue(texts)

    def assert_memory_page(self, profile, xspace, events):
        """An allocator's peak and curve on TensorBoard's page are its events'."""
        # The page does not know of the timestamp that all lines have.
        base, = {line.timestamp_ns * 1000 for plane in xspace.proto.planes for line in plane.lines}
        values = {}
        for e in events:
            values.setdefault(e.start_ps, set()).add(e.stats["bytes_allocated"])
        peak = max(e.stats["bytes_allocated"] for e in events)
        summary, snapshots = profile["profileSummary"], profile["sampledTimelineSnapshots"]
        self.assertEqual(int(summary["peakStats"]["heapAllocatedBytes"]), peak)
        self.assertIn(peak, values[int(summary["peakStatsTimePs"]) + base])
        self.assertGreater(len(snapshots), min(len(events), 500) / 2)
        for snapshot in snapshots:
            self.assertIn(int(snapshot["aggregationStats"]["heapAllocatedBytes"]), values[int(snapshot["timeOffsetPs"]) + base])

    def start(self, kind, *arguments, **options):
        process = kind(*arguments, **options)
        self.addCleanup(process.stop)
        return process

    @classmethod
    def start_shared(cls, kind, *arguments, **options):
        """For all tests of the class: none may change it."""
        process = kind(*arguments, **options)
        cls.addClassCleanup(process.stop)
        return process


class _Result(unittest.TestResult):
    passed = 0

    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()

    def addSuccess(self, test):
        self.passed += 1
        print(f"ok   {test.id()}  {time.monotonic() - self.started:.1f} s", flush=True)

    def _failed(self, test, error):
        # The lines that begin with FAIL alone show what happened.
        reason = " ".join(f"{error[0].__name__}: {error[1]}".split())
        reason = reason if len(reason) <= 600 else f"{reason[:300]} ... {reason[-300:]}"
        print(f"FAIL {test.id()}: {reason}\n{''.join(traceback.format_exception(*error))}", flush=True)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._failed(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self._failed(test, err)

    def addSkip(self, test, reason):
        # Nothing is skipped in silence: what a test needs and lacks is a failure.
        super().addFailure(test, (AssertionError, AssertionError(f"skipped: {reason}"), None))
        print(f"FAIL {test.id()}: skipped: {reason}", flush=True)


def skip_part(test, reason):
    """A part of a test that this host cannot run: tests/run counts it and repeats it beside the sum."""
    print(f"skipped: {test.id()}: {reason}", flush=True)


def main():
    """Runs the tests of the calling file, or those whose names contain a word of the command line, without those whose names contain a word
    behind a "^" there; ends the process."""
    # Under nohup it is ignored, and a program that is started keeps that.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    words = [word for word in sys.argv[1:] if word[0] != "^"]
    others = [word[1:] for word in sys.argv[1:] if word[0] == "^"]
    begun = time.monotonic()
    result = _Result()
    tests = unittest.TestSuite()
    for suite in unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]):
        for test in suite:
            if (not words or any(word in test.id() for word in words)) and not any(word in test.id() for word in others):
                tests.addTest(test)
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    # A shell has it ignored in what it starts in the background, and so would be what is started here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # What outlives who started it stays a descendant, so that what it holds is seen to be left.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        tests.run(result)
    except KeyboardInterrupt:
        print("interrupted")
        result.failures.append((None, "interrupted"))
    failed = len(result.failures) + len(result.errors)
    print(f"     took {time.monotonic() - begun:.1f} s")
    print(f"{result.passed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed or not result.passed else 0)
