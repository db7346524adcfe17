# SPDX-License-Identifier: Apache-2.0
"""Forked workers that ask a model until SIGTERM and compare each answer with the first one, bit by bit. One of them loads and unloads its
model all the time; one refuses to map memory both writable and executable (PR_SET_MDWE).

Prints "worker PID" for each, "ready" when each has its first answer, and at the end for each "PID: N answers, M different"."""
import ctypes
import os
import signal
import sys

PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 65, 1
RUNS_OF_EACH = 50

going = True


def stop(number, frame):
    global going
    going = False


def work(load, reloads, refuses, begun):
    signal.signal(signal.SIGTERM, stop)
    if refuses and ctypes.CDLL(None, use_errno=True).prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0):
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    ask, count, different = load(), 0, 0
    right = ask()
    os.write(begun, b".")
    while going:
        if reloads and count % RUNS_OF_EACH == 0:
            ask = load()
        count += 1
        different += ask() != right
    os.write(1, f"{os.getpid()}: {count} answers, {different} different\n".encode())
    os._exit(0)


def serve(load, kinds=((False, False), (True, False), (False, True))):
    """load() gives a model as a function that returns the bytes of its answer; kinds: of each worker whether it reloads, and refuses."""
    workers, (begun, begins) = [], os.pipe()
    for reloads, refuses in kinds:
        pid = os.fork()
        if not pid:
            work(load, reloads, refuses, begins)
        workers.append(pid)
        print(f"worker {pid}")
    os.close(begins)
    for _ in workers:
        os.read(begun, 1)
    signal.signal(signal.SIGTERM, lambda number, frame: [os.kill(pid, signal.SIGTERM) for pid in workers])
    print("ready", flush=True)
    status = [os.waitpid(pid, 0)[1] for pid in workers]
    sys.exit(any(status))
