# SPDX-License-Identifier: Apache-2.0
"""Runs a model in PyTorch's eager mode in two threads, each under the runtime's own profiler, until SIGTERM. Then it writes to a
file the names of all operations, by those of the functions that dispatch them, and of each thread its number, when its profiler began
(Unix, ns), and the operations that that saw, in the order in which they began, as [depth, name, start, end] in microseconds since then.

usage: torch_runs.py FILE

Runs with Debian's python3, which its package of PyTorch is for. The operations of a thread come in groups, between which it sleeps."""
import contextlib
import json
import pathlib
import signal
import sys
import threading
import time

import torch
from torch.autograd import profiler_legacy

import torch_model

PAUSE_S = 0.005

going = threading.Event()


def operations(records):
    """The profiler's own list of a thread: where each operation begins and ends, in the order of time."""
    (start,) = [record for record in records if record.name() == "__start_profile"]
    found, inside = [], []
    for record in records:
        if record.kind() == "push":
            inside.append([len(inside), record.name(), start.cpu_elapsed_us(record), None])
            found.append(inside[-1])
        elif record.kind() == "pop":
            inside.pop()[3] = start.cpu_elapsed_us(record)
    return found


def work(convolves, result):
    model, x, one = torch_model.Model(convolves).eval(), torch.ones(2, torch_model.WIDTH), torch.ones(())
    # One thread stays without gradients. Of the other each run is a block, behind an operation that gives Python no tensor.
    always, each = (contextlib.nullcontext, torch.no_grad) if convolves else (torch.no_grad, contextlib.nullcontext)
    with always():
        with torch.no_grad():
            model(x)
        torch.autograd._enable_profiler_legacy(profiler_legacy.profile().config())
        first_ns = time.time_ns()
        torch.empty(0)
        while not going.is_set():
            one.item()
            with each():
                model(x)
            time.sleep(PAUSE_S)
        (records,) = [records for records in torch.autograd._disable_profiler_legacy() if records]
    found = operations(records)
    result.append({"thread": threading.get_native_id(), "start_ns": first_ns - int(found[0][2] * 1000), "operations": found})


def names():
    schemas = [s for s in torch._C._jit_get_all_schemas() if s.name.startswith("aten::")]
    return {"_".join(filter(None, (s.name.removeprefix("aten::"), s.overload_name))): s.name for s in schemas}


def main():
    torch.manual_seed(7)
    torch.set_num_threads(1)
    signal.signal(signal.SIGTERM, lambda number, frame: going.set())
    result = []
    threads = [threading.Thread(target=work, args=(convolves, result)) for convolves in (True, False)]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    for thread in threads:
        thread.join()
    pathlib.Path(sys.argv[1]).write_text(json.dumps({"names": names(), "threads": result}))


main()
