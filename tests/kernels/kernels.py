#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tries tfprofd on Debian's kernels, in guests (tests/kernels/boot), and writes docs/kernels.md; --short: a part of it, and no document.
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
SOCKETS = f"{PYTHON} tests/e2e/test_sockets.py calls_cut_them pipelined Others"
# For all kernels together, whose guests run side by side: some 80 s and 15 minutes, and more where the machine is busy.
SHORT_S, LONG_S = 240, 1200
# Of the unit tests, those that compute for long, or are given seconds: they do not touch the kernel.
LONG_UNITS = ("elf_malformed", "elf_symbols", "elf_debug", "requests_property", "flight", "grpc", "loop")
UNITS = "$(ls build/tests/test_* | grep -v -e '\\.d$'" + "".join(f" -e test_{name}$" for name in LONG_UNITS) + ")"
# Not what is measured: the clock is emulated, and guest.py tries that more than once.
DOCTOR = "ready is_named explained not_permitted private people"
# And not those that start a real server, for which guest.py has one.
REFUSED = "scheduler recording need recorder probes"
SUITE = [("suite", f"./tests/run 300 {UNITS}; ./tests/run 400 '{PYTHON} tests/e2e/test_refused.py {REFUSED}' '{PYTHON} tests/e2e/test_doctor.py {DOCTOR}'"),
         ("sockets", f"{PYTHON} tests/e2e/test_sockets.py")]


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
    return "perf events, one for each; CAP_SYS_ADMIN is kept for them" if "perf-event-probes" in found["doctor"] else \
        "`uprobe_multi` links, one for each file and kind"


def arrival(found):
    return "`sk_data_ready`" if found["programs"]["on_data_ready"] else "`tcp_probe`, for segments in order"


def missing(found):
    lost = []
    if "perf-event-probes" in found["doctor"]:
        lost.append("detaching at once: probes are removed one after the other, after the answer, each after some grace periods of the kernel")
    if not found["programs"]["on_data_ready"]:
        lost.append("the arrival of segments out of order: a request that begins in one begins later, or where it is read (`no_arrival`)")
    return "; ".join(lost) or "nothing"


def write_document(results):
    names = list(results[0]["programs"])
    lines = [
        "# Kernels", "",
        "`make kernels` boots each of these kernels in an emulator, tries tfprofd on it, and writes this page. Nothing here is about speed: emulation has no",
        "figures of cost. The oldest supported kernel is 6.1: nothing older was tried. Before 5.17 the programs cannot be loaded at all, for lack of",
        "`bpf_loop()`.", "",
        "| kernel | probes are | arrivals are seen by | what is missing |", "|---|---|---|---|"]
    lines += [f"| {r['release']} | {attached(r)} | {arrival(r)} | {missing(r)} |" for r in results]
    lines += ["", "Every kernel: the verifier takes every program; captures of a fixture at levels 1, 2 and 3; probes at generated functions (of gcc and clang), with",
              "results and the data below the stack pointer compared; requests at sockets; 20 captures in a row; a target, the broker and the front killed in",
              "the middle, with nothing left attached. A real TensorFlow server, with allocations and the recorder:", "",
              "| kernel | ops compared with the in-process profiler | not the same | requests compared with the clients' and the server's logs | wrong |",
              "|---|---|---|---|---|"]
    lines += [f"| {r['release']} | {r['ops']} | 0 | {r['requests']} | 0 |" for r in results]
    lines += ["", f"On {results[0]['release']}, besides: the unit tests but {', '.join(LONG_UNITS)}; all tests of requests at sockets and of refused programs; and of `doctor` what is",
              "not measured.", "",
              "## Settings of hosts", "", "Each was set in a guest of both kernels. Captures work, and `tfprofctl doctor` says:", "", "| finding | text |", "|---|---|"]
    hosts = {code: text for r in results for code, text in r["hosts"]}
    lines += [f"| `{code}` | {text} |" for code, text in hosts.items()]
    lines += ["", "The daemon refuses to start, with exit code 7:", "", "| finding | text |", "|---|---|"]
    lines += [f"| `{code}` | {text} |" for code, text in {code: text for r in results for code, text in r["refused"]}.items()]
    lines += ["", "## The verifier", "", "Instructions of each program, and how many the verifier went through (its limit is 1,000,000):", "",
              f"| program | {' | '.join(r['release'] for r in results)} |", f"|---|{'---|' * len(results)}"]
    for name in names:
        cells = [f"{p['instructions']}, {p['examined']}" if (p := r["programs"][name]) else "not there" for r in results]
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
