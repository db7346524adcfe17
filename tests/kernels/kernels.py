#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests tfprofd on Debian's kernels, in guests (tests/kernels/boot), and writes docs/kernels.md; --short: a part of it, and no document.
Needs network for the kernels the first time. Ends with "N passed, N failed"."""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIRECTORY = ROOT / "build/kernels"
# Debian 12's own kernel, which is the oldest that is supported, and the one of its backports.
SERIES = ("6.1", "6.12")
PYTHON = "build/venv/bin/python"
GUEST = f"{PYTHON} tests/kernels/guest.py"
# Of requests at sockets, on the other kernels.
SOCKETS = f"{PYTHON} tests/e2e/test_sockets.py calls_divide_them pipelined Others"
# For all kernels together, whose guests run side by side: about 80 s and 27 minutes, and more where the machine is busy.
SHORT_S, LONG_S = 240, 2700
# Of the unit tests, those that compute for long, or are given seconds: they do not touch the kernel.
LONG_UNITS = ("elf_malformed", "elf_symbols", "elf_debug", "requests_property", "flight", "grpc", "loop")
UNITS = "$(ls build/tests/test_* | grep -v -e '\\.d$'" + "".join(f" -e test_{name}$" for name in LONG_UNITS) + ")"
# Not what is measured: the clock is emulated, and guest.py tries that more than once.
DOCTOR = "ready is_named explained not_permitted private the_text_has"
# And not those that start a real server, for which guest.py has one.
REFUSED = "scheduler recording need recorder program_of_probes"
SUITE = [("suite", f"./tests/run 300 {UNITS}; ./tests/run 400 '{PYTHON} tests/e2e/test_refused.py {REFUSED}' '{PYTHON} tests/e2e/test_doctor.py {DOCTOR}'"),
         ("sockets", f"{PYTHON} tests/e2e/test_sockets.py")]
# The installed service, where systemd is the first process; the older kernel needs another capability.
INSTALLED = DIRECTORY / "installed"
SERVICE = f"{PYTHON} tests/kernels/service.py {INSTALLED}"


def boot(series, name, command, deadline, **env):
    """(output, passed, failed) of all that it ran; name is the guest's."""
    limit = max(1, int(deadline - time.monotonic()))
    out = DIRECTORY / f"out-{name}"
    out.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([ROOT / "tests/kernels/boot", DIRECTORY / series, out, command], cwd=ROOT, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "LIMIT": str(limit), **env})
    sums = [(int(p), int(f)) for p, f in re.findall(r"^(\d+) passed, (\d+) failed$", done.stdout, re.MULTILINE)]
    passed, failed = sum(p for p, _ in sums), sum(f for _, f in sums)
    output = re.sub(r"(?m)^(?=\d+ passed, )", "     ", done.stdout)
    if (done.returncode and not failed) or not sums:
        output += f"FAIL kernels: {name}: the guest ended with {done.returncode}\n"
        failed += 1
    return output, passed, failed


def attached(found):
    return "perf events, one per probe; the broker keeps CAP_SYS_ADMIN for them" if "perf-event-probes" in found["doctor"] else \
        "`uprobe_multi` links, one per file and kind"


def arrival(found):
    return "`sk_data_ready`" if found["programs"]["on_data_ready"] else "`tcp_probe`, for segments in order"


def passing(found):
    for program, how in (("on_sent", "`sock_send_length`, `sock_recv_length`"), ("on_tcp_sent", "the returns of `tcp_sendmsg`, `tcp_recvmsg`")):
        if found["programs"][program]:
            return how
    return "system calls"


def missing(found):
    lost = []
    if "perf-event-probes" in found["doctor"]:
        lost.append("probes are not detached at once, but one after the other, after the answer, each after several grace periods of the kernel")
    if not found["programs"]["on_data_ready"]:
        lost.append("the arrival of out-of-order segments is not seen: a request that begins in one begins later, or where it is read (`no_arrival`)")
    if not found["programs"]["on_sent"] and not found["programs"]["on_tcp_sent"]:
        lost.append("system calls of every process become slower while requests are followed at sockets")
    elif not found["programs"]["on_sent"]:
        lost.append("a request whose first bytes a call reads that waited already when the capture began is not seen")
    return "; ".join(lost) or "none"


def write_document(results):
    names = list(results[0]["programs"])
    releases = " and ".join(r["release"] for r in results)
    lines = [
        "# Kernels", "",
        "`make kernels` boots each of these kernels in an emulator, tests tfprofd on it, and writes this page. An emulator gives no figures of cost, so this",
        "page has none. The oldest supported kernel is 6.1; nothing older was tested. The programs cannot be loaded on kernels before 5.17, which lack",
        "`bpf_loop()`.", "",
        "| kernel | probes | arrivals are seen by | messages are seen by | limitations |", "|---|---|---|---|---|"]
    lines += [f"| {r['release']} | {attached(r)} | {arrival(r)} | {passing(r)} | {missing(r)} |" for r in results]
    lines += ["", "On every kernel, these were tested:", "",
              "* the verifier accepts every program;",
              "* captures of a fixture at levels 1, 2 and 3, and 20 captures in a row;",
              "* probes at generated functions (by gcc and clang), with results and the data below the stack pointer compared;",
              "* requests at sockets;",
              "* the system clock set forward and back by an hour within a window;",
              "* a target, the broker and the front killed in the middle of a capture, with nothing left attached;",
              "* threads whose cgroup (of version 2) has used up its quota are throttled, and no others;",
              "* the service of systemd, installed: it starts, captures, restarts, reloads and stops;",
              "* captures of a real TensorFlow server, with allocations and the recorder:", "",
              "| kernel | ops compared with the in-process profiler | different | requests compared with the logs of clients and server | wrong |",
              "|---|---|---|---|---|"]
    lines += [f"| {r['release']} | {r['ops']} | 0 | {r['requests']} | 0 |" for r in results]
    lines += ["", f"On {results[0]['release']} also:", "",
              f"* the unit tests except {', '.join(LONG_UNITS)};",
              "* all tests of requests at sockets and of refused programs;",
              "* the tests of `doctor` that do not depend on measured times.", "",
              "## Settings of hosts", "",
              f"Each setting was tested in guests with {releases}. Captures work, and `tfprofctl doctor` reports:", "", "| finding | text |", "|---|---|"]
    hosts = {code: text for r in results for code, text in r["hosts"]}
    lines += [f"| `{code}` | {text} |" for code, text in hosts.items()]
    lines += ["", "With these the daemon refuses to start, with exit code 7:", "", "| finding | text |", "|---|---|"]
    lines += [f"| `{code}` | {text} |" for code, text in {code: text for r in results for code, text in r["refused"]}.items()]
    lines += ["", "## The verifier", "", "For each program, its instructions, and how many instructions the verifier processed (its limit is 1,000,000):", "",
              f"| program | {' | '.join(r['release'] for r in results)} |", f"|---|{'---|' * len(results)}"]
    for name in names:
        cells = [f"{p['instructions']}, {p['examined']}" if (p := r["programs"][name]) else "does not exist" for r in results]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    (ROOT / "docs/kernels.md").write_text("\n".join(lines) + "\n")


def main():
    short = "--short" in sys.argv
    passed = failed = 0
    results = []
    for series in SERIES:
        if subprocess.run([ROOT / "tests/kernels/fetch", series, DIRECTORY / series], cwd=ROOT).returncode:
            print(f"FAIL kernels: there is no kernel {series} to try\n0 passed, 1 failed")
            return 1

    env = {"GUEST_RESULT": "/run/boot/result.json", **({"GUEST_SHORT": "1"} if short else {})}
    guests = [(series, series, GUEST if short or series == SERIES[0] else f"{SOCKETS}; {GUEST}", env) for series in SERIES]
    if not short:
        guests += [(SERIES[0], f"{SERIES[0]}-{name}", command, {}) for name, command in SUITE]
        subprocess.run(["make", "-s", "install", "PREFIX=/usr", f"DESTDIR={INSTALLED}"], cwd=ROOT, check=True)
        guests += [(series, f"{series}-service", SERVICE, {"INIT": "systemd"}) for series in SERIES]
    deadline = time.monotonic() + (SHORT_S if short else LONG_S)
    # Each guest is one thread of the emulator.
    with concurrent.futures.ThreadPoolExecutor(len(SERIES)) as pool:
        runs = pool.map(lambda guest: boot(guest[0], guest[1], guest[2], deadline, **guest[3]), guests)
        for (series, name, *_), (output, p, f) in zip(guests, runs):
            print(f"== {(DIRECTORY / series / 'version').read_text().strip()} ({name})\n{output}", end="", flush=True)
            passed, failed = passed + p, failed + f
            if not f and name in SERIES and not short:
                results.append(json.loads((DIRECTORY / f"out-{name}/result.json").read_text()))
    if not failed and not short:
        write_document(results)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
