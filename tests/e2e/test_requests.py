#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whose work each run is, and where each request's time went, compared with what servers and clients know. As root.

Servers write down, out of the profiler's sight, which thread ran the model for which request, when, and in which batch;
clients when they sent and when they were answered. An id that the client chose joins the two, the port and the time (or the
stream) join them with what was captured.
"""
import bisect
import collections
import dataclasses
import json
import statistics
import time

import harness
import test_lifecycle

WINDOW_S = 0.4
# Where the server is too slow for its clients the window ends after so many requests, or so much time.
BUSY_REQUESTS, BUSY_REQUESTS_PYTHON, BUSY_WINDOW_S = 400, 80, 3
# Of medians, at moderate load, on native servers.
LATENCY_ERROR_NS = 100_000
# What else the machine does only ever adds to what clients see: then these are captured again.
TIMES_AGAIN = 2
INFERRED_RIGHT = 0.99
# What the wait for accept() leaves of the difference, as a median: Python's server notes the time of accept() when it has its lock again.
REST_NS = 2_000_000
# So many requests of a case are looked at with their critical paths.
PATHS_MAX = 150


@dataclasses.dataclass
class Case:
    """A load, and what was captured of it."""
    label: str
    rest: bool
    model: str
    clients: int
    rate: int           # of all clients, per second; 0: as many as they can
    python: bool = False
    right: float = 0  # so much of the whole requests at least
    calm: bool = False  # the machine has time to spare: latencies are compared
    arguments: tuple = ()
    fresh: bool = False  # the connections are made while the window is open
    accepts_each: bool = False  # a connection for each request
    requests: list = None
    client: list = None
    port: int = 0


@dataclasses.dataclass
class Figures:
    """What came of comparing a case with the truth."""
    whole: int = 0
    right: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # by attribution
    wrong: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    orphans: int = 0
    lost: int = 0
    batches: int = 0
    in_batch: int = 0
    problems: list = dataclasses.field(default_factory=list)
    errors_ns: list = dataclasses.field(default_factory=list)  # of latency_error_ns()
    waits_ns: list = dataclasses.field(default_factory=list)  # from a request's sending until its connection was accepted
    rests_ns: list = dataclasses.field(default_factory=list)  # what such a wait leaves of the errors

    def problem(self, what, *evidence):
        self.problems.append(f"{what}: {' '.join(json.dumps(e) for e in evidence)}"[:1500])


def parse(line, with_path):
    """A request; the path makes most of its text, and of the time that it takes."""
    if not with_path:
        line = line.partition(',"critical_path":')[0] + "}"
    return json.loads(line)


def join(case):
    """[(request, the client's entry)] of all that both have, and the whole ones of either that the other has not."""
    by_port = collections.defaultdict(list)
    for entry in sorted(case.client, key=lambda e: e["send_ns"]):
        by_port[entry["local_port"]].append(entry)
    by_stream = {(e["local_port"], e["stream"]): e for e in case.client}
    pairs, strangers, seen = [], [], set()
    for request in case.requests:
        entry = None
        if request["protocol"] == "http2":
            entry = by_stream.get((request["peer_port"], request["stream"]))
        else:
            # A client sends its next request when it has the answer: those of one port do not overlap.
            entries = by_port[request["peer_port"]]
            at = bisect.bisect(entries, request["start_ns"], key=lambda e: e["send_ns"])
            entry = entries[at - 1] if at else None
        if entry and entry["send_ns"] <= request["start_ns"] <= entry["receive_ns"] and entry["id"] not in seen:
            seen.add(entry["id"])
            pairs.append((request, entry))
        elif is_whole(request) or request["runs"]:
            strangers.append(request)
    first = min((r["start_ns"] for r in case.requests), default=0)
    last = max((r["start_ns"] + r["latency_ns"] for r in case.requests), default=0)
    missing = [e for e in case.client if e["id"] not in seen and first <= e["send_ns"] and e["receive_ns"] <= last]
    return pairs, strangers, missing


def is_whole(request):
    return not any(request[flag] for flag in ("cut_start", "cut_end", "lost", "reset"))


def latency_error_ns(request, entry):
    """The client's latency less ours."""
    return entry["receive_ns"] - entry["send_ns"] - request["latency_ns"]


def latency_errors_ns(pairs):
    return [latency_error_ns(request, entry) for request, entry in pairs if is_whole(request)]


def median_error_ns(cases):
    """Of all together: with one client on an idle machine most of it is how long the client's own CPU takes to wake up."""
    return abs(statistics.median([error for case in cases for error in latency_errors_ns(join(case)[0])] or [0]))


def check_times(request, figures):
    """What holds of every request, whatever the truth."""
    start, end = request["start_ns"], request["start_ns"] + request["latency_ns"]
    if end != request["end_ns"] or sum(request["phases"].values()) != request["latency_ns"] or \
            min(request["phases"].values()) < 0:
        figures.problem("phases do not add up", request)
    times = [t for t in (start, request["read_start_ns"], request["read_end_ns"], request["write_start_ns"], end) if t]
    if times != sorted(times):
        figures.problem("times are not in order", times, request)
    if "critical_path" not in request:
        return
    at = start
    for piece in request["critical_path"]:
        if piece["start_ns"] != at or piece["end_ns"] < at:
            figures.problem("the critical path has a gap or an overlap", piece, request)
            return
        at = piece["end_ns"]
    if at != end:
        figures.problem("the critical path does not end with the request", request)


def run_is_of(case, run, truth):
    """In Python a request makes its input by runs of its own, too, on the thread that has taken it up."""
    first, last = truth["read_ns" if case.python else "run_start_ns"], truth["run_end_ns"]
    inside = [first <= run[bound] <= last for bound in ("start_ns", "end_ns")]
    # If it is not whole, one of them is only a bound.
    return run["tid"] == truth["thread"] and (all(inside) if run["whole"] else any(inside))


def check_known(case, request, entry, truth, figures):
    """Of a whole request: what it was, and its times beside the server's."""
    wanted = {"status": entry["status"]}
    if case.rest:
        body = f'{{"instances": [{entry["id"]}]}}'
        head = (f"POST /v1/models/{case.model}:predict HTTP/1.1\r\nHost: 127.0.0.1:{case.port}\r\nx-request-id: {entry['id']}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n")
        wanted |= {"method": "POST", "path": f"/v1/models/{case.model}:predict", "model": case.model,
                   "bytes_in": len(head) + len(body)}
    else:
        path = "/tensorflow.serving.PredictionService/Predict"
        # What a connection's table held before the window is not known, and not made up either.
        wanted |= {"path": path if case.fresh or request["path"] else None,
                   "method": "POST" if case.fresh or request["method"] else None}
        for key in ("status", "grpc_status"):
            wanted[key] = entry[key] if case.fresh or request[key] is not None else None
    found = {key: request[key] for key in wanted}
    if found != wanted or not request["bytes_in"] or not request["bytes_out"]:
        figures.problem(f"{found} is not {wanted}", request)
    if not request["read_end_ns"] <= truth["run_start_ns"] <= truth["run_end_ns"] <= request["end_ns"]:
        figures.problem("the model did not run between its reading and its answer", truth, request)


def note_wait(request, entry, truth, figures):
    """Where each request has a connection of its own, the kernel takes the connection and the request's bytes, and both wait in the listener's
    backlog until the server accepts. The client's latency has that wait. Ours has it where the arrival of the bytes was seen before, which of
    many connections that wait it is not: then the request begins with the accept."""
    figures.waits_ns.append(max(truth["accept_ns"] - entry["send_ns"], 0))
    unseen = max(min(request["start_ns"], truth["accept_ns"]) - entry["send_ns"], 0)
    figures.rests_ns.append(latency_error_ns(request, entry) - unseen)


def check_runs(case, request, truth, figures):
    """Whose its runs are; true: all of them its own."""
    wrong = [run for run in request["runs"] if not run_is_of(case, run, truth)]
    if wrong:
        figures.wrong[request["attribution"]] += 1
        figures.problem(f"not its own ({request['attribution']})", wrong, truth, request)
        return False
    if not request["runs"]:
        if request["attribution"] != "none":
            figures.problem("no run, and yet an attribution", request)
        if is_whole(request):
            figures.orphans += 1
        return False
    if is_whole(request):
        figures.right[request["attribution"]] += 1
    run = request["threads"]["run"]
    if not run or run["tid"] != truth["thread"]:
        figures.problem("the thread of its run is another", truth, request)
    return True


def check_batches(case, shown, figures):
    """shown: (request, client's entry) of those whose runs are right."""
    members = collections.Counter(tuple(e["batch"]) for e in case.client if "batch" in e)
    pair_of, number_of, seen = {}, {}, collections.defaultdict(list)
    for request, entry in shown:
        # Of one that the window cut its batch may have been so, too.
        if not is_whole(request) and not request["batches"]:
            continue
        pair, batches = tuple(entry["batch"]), request["batches"]
        if len(batches) != 1:
            figures.problem(f"{len(batches)} batches", entry, request)
            continue
        number = batches[0]["batch"]
        if number is None:
            if is_whole(request):
                figures.problem("its batch is not known", entry, request)
            continue
        figures.in_batch += 1
        if pair_of.setdefault(number, pair) != pair or number_of.setdefault(pair, number) != number:
            figures.problem(f"batch {number} is {pair_of[number]}, {pair} is batch {number_of.get(pair)}", entry, request)
        else:
            seen[number].append(batches[0])
    for number, batches in seen.items():
        # Others may have been added to it before the window opened, and rows after it closed.
        if len(batches) == members[pair_of[number]] and any(b["tasks"] != len(batches) for b in batches) or \
                any(b["padded_rows"] not in (None, pair_of[number][1]) for b in batches):
            figures.problem(f"batch {number} {pair_of[number]} of {members[pair_of[number]]} requests", batches)
    figures.batches = len(pair_of)


def compare(case, truth):
    figures = Figures()
    pairs, strangers, missing = join(case)
    for request in case.requests:
        check_times(request, figures)
    for request in strangers:
        figures.problem("nobody sent it", request)
    for entry in missing:
        figures.problem("it is missing", entry, truth.get(entry["id"]))
    figures.errors_ns = latency_errors_ns(pairs)
    shown = []
    for request, entry in pairs:
        known = truth[entry["id"]]
        if known["peer_port"] != entry["local_port"]:
            figures.problem("client and server do not agree", entry, known)
        figures.whole += is_whole(request)
        figures.lost += request["lost"]
        if is_whole(request):
            check_known(case, request, entry, known, figures)
            if case.accepts_each:
                note_wait(request, entry, known, figures)
        if check_runs(case, request, known, figures):
            shown.append((request, entry))
    if case.model.startswith("batched"):
        check_batches(case, shown, figures)
    return figures


class Comparison(test_lifecycle.Lifecycle):
    table = []
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.daemon = harness.Daemon()
        cls.addClassCleanup(cls.daemon.stop)

    @classmethod
    def tearDownClass(cls):
        print(f"{'':66} exact  inferred                      batches and  client - ours, us\n     "
              f"{'case':23} {'model':14} clients  per s  whole  right     right  orphan  wrong  lost     their tasks"
              f"     median       90%")
        for row in cls.table:
            print("     " + row)
        super().tearDownClass()

    def load(self, case, port):
        log = self.directory / "client.log"
        self.first_id = getattr(self, "first_id", 1)
        arguments = ["--clients", case.clients, "--model", case.model, "--rate", case.rate, "--id-base", self.first_id,
                     *case.arguments]
        # When it was answered is not to depend on when it gets a CPU.
        client = harness.LoadClient(port, case.rest, log, *(arguments if case.fresh else [*arguments, "--warm", 1]),
                                    prefix=["chrt", "--fifo", "1"])
        self.addCleanup(client.stop)
        return client

    def capture(self, case, pids, port):
        """Fills in what the client and the capture report about a case."""
        case.port = port
        path = self.directory / "requests.ndjson"
        seconds = 1 if case.fresh else WINDOW_S if case.rate else BUSY_WINDOW_S
        # The bar is a share of the requests: a small sample misses it by chance.
        if case.rate and 0 < case.right < 1:
            seconds *= 3
        until = [] if case.rate else ["--requests-count", BUSY_REQUESTS_PYTHON if case.python else BUSY_REQUESTS]
        client = None if case.fresh else self.load(case, port)
        capture = harness.Process("capture", [
            harness.OUT / "tfprofctl", "--daemon", f"unix:{self.daemon.socket}", "capture",
            *(argument for pid in pids for argument in ("--pid", pid)), "--duration", f"{seconds}s", "-o", self.directory / "log",
            "--requests", path, *until])
        self.addCleanup(capture.stop)
        if case.fresh:
            # The window opens before it does.
            self.wait_window(self.daemon)
            client = self.load(case, port)
        status = capture.wait(harness.ANSWER_TIMEOUT_S)
        case.client = client.finish()
        self.assertEqual(status, 0, capture.stderr())
        with open(path) as lines:
            case.requests = [parse(line, i < PATHS_MAX) for i, line in enumerate(lines)]
        self.first_id = max(e["id"] for e in case.client) + 1

    def capture_each(self, server, cases):
        for case in cases:
            self.capture(case, self.processes(server), server.port if case.rest else server.grpc_port)

    @staticmethod
    def processes(server):
        """Those that serve, where the server is several."""
        return server.workers or [server.pid]

    def serve_another(self, runtime, model, label, environment, right, exact, ways=(True, False)):
        """Compares the server in C with another runtime, by REST and by gRPC; model: the directory of its half_plus_two."""
        truth = self.directory / "truth"
        server = self.start(harness.Server, runtime, [harness.BUILD / f"servers/{runtime}_server", "--port", 0, "--grpc-port", 0, "--truth", truth, model],
                            ("env", *environment), False, False)
        server.grpc_port = int(server.line(r"grpc on (\d+)")[1])
        self.run_cases(server, truth, [Case(f"{label}, {'REST' if rest else 'gRPC'}", rest, "half_plus_two", clients, rate, right=right)
                                       for rest, clients, rate in ((True, 8, 400), (True, 64, 0), (False, 8, 400)) if rest in ways], exact)

    def run_cases(self, server, truth_path, cases, exact=False):
        for pid in self.processes(server):
            harness.wait_target(self.daemon, pid)
        self.capture_each(server, cases)
        calm = [case for case in cases if case.calm]
        for _ in range(TIMES_AGAIN):
            if median_error_ns(calm) <= LATENCY_ERROR_NS:
                break
            calm = [dataclasses.replace(case) for case in calm]
            self.capture_each(server, calm)
            cases = cases + calm
        self.assertEqual(server.stop(), 0)
        truth = {}
        # Each process has a file of its own.
        for path in truth_path.parent.glob(f"{truth_path.name}*"):
            for line in path.read_text().splitlines():
                record = json.loads(line)
                truth[record["id"]] = record
        figures = [compare(case, truth) for case in cases]
        found = [self.judge(*pair, exact) for pair in zip(cases, figures)]
        self.assertEqual([problem for problems in found for problem in problems[:2]], [])
        self.assertLessEqual(median_error_ns(calm), LATENCY_ERROR_NS)

    def judge(self, case, figures, exact):
        """Adds a line to the table; what is not as promised."""
        errors = sorted(figures.errors_ns) or [0]
        p50, p90 = statistics.median(errors) / 1e3, errors[len(errors) * 9 // 10] / 1e3
        self.table.append(
            f"{case.label:23} {case.model:14} {case.clients:7} {case.rate or 'most':>6} {figures.whole:6} "
            f"{figures.right['exact']:6} {figures.right['inferred']:9} {figures.orphans:7} {sum(figures.wrong.values()):6} "
            f"{figures.lost:5} {figures.batches:8} {figures.in_batch:6} {p50:11.1f} {p90:9.1f}"
            f"{f'   {len(figures.problems)} problems' if figures.problems else ''}")
        problems = list(figures.problems)
        if case.accepts_each:
            wait, rest = (statistics.median(values or [0]) for values in (figures.waits_ns, figures.rests_ns))
            print(f"     {case.label}, {case.model}, {case.clients} clients: clients see {p50 / 1e3:.1f} ms more (median), connections wait {wait / 1e6:.1f} ms"
                  f" in the backlog; where that is not seen it leaves {rest / 1e6:.2f} ms")
            if rest > REST_NS:
                problems.append(f"{case.label}, {case.clients} clients: {rest} ns of the clients' latency is not explained")
        name = f"{case.label}, {case.model}, {case.clients} clients:"
        right = sum(figures.right.values())
        if exact and figures.right != {"exact": figures.whole}:
            problems.append(f"{name} {figures.right} of {figures.whole}")
        if right < case.right * figures.whole:
            problems.append(f"{name} only {right} of {figures.whole}")
        if figures.whole < (5 if case.rate else 1):
            problems.append(f"{name} only {figures.whole} whole requests")
        return problems

    @staticmethod
    def in_long(*cases):
        """Those of make long."""
        return cases if harness.LONG else ()

    def matrix(self, label, rest, python=False, calm=False):
        """1 and 8 clients with time to spare, 64 (make long) and 256 that always wait."""
        loads = (1, 200), (8, 400), *self.in_long((64, 0)), (256, 0)
        return [Case(label, rest, model, clients, rate // (1 + python), python, INFERRED_RIGHT * python, calm and clients <= 8)
                for model in ("half_plus_two", "batched") for clients, rate in loads]


class Requests(Comparison):
    def native(self, *arguments):
        truth = self.directory / "truth"
        return truth, self.start(harness.NativeServer, ["half_plus_two", "batched", "batched_slow"],
                                 arguments=["--grpc-port", 0, "--truth", truth, *arguments])

    def test_native_rest(self):
        truth, server = self.native()
        self.run_cases(server, truth, self.matrix("native REST", True, calm=True) + [
            Case("native REST", True, "batched_slow", 64, 800)], exact=True)

    def test_native_grpc(self):
        truth, server = self.native()
        self.run_cases(server, truth, self.matrix("native gRPC", False, calm=True) + [
            Case("native gRPC, new", False, "batched", 8, 400, fresh=True),
            Case("native gRPC, shared", False, "half_plus_two", 64, 0, arguments=("--shared", 3)),
            *self.in_long(Case("native gRPC, shared", False, "batched", 256, 0, arguments=("--shared", 2))),
            Case("native gRPC, shared", False, "batched", 8, 400, arguments=("--shared", 1))], exact=True)

    def test_native_async_rest(self):
        truth, server = self.native("--async-rest")
        self.run_cases(server, truth, self.matrix("native REST, async", True))

    def test_python_grpc(self):
        truth = self.directory / "truth"
        server = self.start(harness.GrpcServer, ["half_plus_two", "batched"], arguments=["--truth", truth])
        server.grpc_port = server.port
        self.run_cases(server, truth, self.matrix("Python gRPC", False, python=True) + [
            Case("Python gRPC, shared", False, "half_plus_two", 8, 200, True, INFERRED_RIGHT, arguments=("--shared", 2)),
            *self.in_long(Case("Python gRPC, shared", False, "batched", 64, 0, True, INFERRED_RIGHT, arguments=("--shared", 3)),
                          Case("Python gRPC, shared", False, "half_plus_two", 64, 0, True, INFERRED_RIGHT, arguments=("--shared", 1))),
            Case("Python gRPC, shared", False, "batched", 256, 0, True, INFERRED_RIGHT, arguments=("--shared", 2)),
            Case("Python gRPC, new", False, "half_plus_two", 8, 100, True, INFERRED_RIGHT, fresh=True)])

    def test_python_http(self):
        for label, arguments in (("Python HTTP/1.1", []), ("Python HTTP/1.0", ["--http10"])):
            truth = self.directory / "truth"
            server = self.start(harness.HttpServer, ["half_plus_two", "batched"], arguments=["--truth", truth, *arguments])
            cases = self.matrix(label, True, python=True)
            if arguments:
                # A connection for each request: what batches do is the same.
                cases = [dataclasses.replace(case, accepts_each=True) for case in cases if case.model == "half_plus_two" or case.clients == 1]
            self.run_cases(server, truth, cases)


if __name__ == "__main__":
    harness.main()
