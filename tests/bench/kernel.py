# SPDX-License-Identifier: Apache-2.0
"""What the kernel reports about a daemon's memory and its BPF objects."""
import contextlib
import ctypes
import glob
import pathlib
import re
import struct

import harness

_SYS_BPF = 321
_GET_NEXT_ID = {"prog": 11, "link": 31}
_LIBC = ctypes.CDLL(None, use_errno=True)


def id_exists(kind, number):
    """Whether there is a BPF program or link with this id; takes microseconds, where bpftool takes milliseconds."""
    attribute = ctypes.create_string_buffer(struct.pack("III", number - 1, 0, 0), 12)
    if _LIBC.syscall(_SYS_BPF, _GET_NEXT_ID[kind], attribute, 12):
        return False
    return struct.unpack("III", attribute.raw)[1] == number


def held_ids(daemon):
    """{(kind, id)} of the BPF links and programs that the daemon holds."""
    found = set()
    for pid in daemon.pids():
        for path in glob.glob(f"/proc/{pid}/fdinfo/*"):
            with contextlib.suppress(OSError):
                text = pathlib.Path(path).read_text()
                found |= {(kind, int(n)) for kind, n in re.findall(r"^(prog|link)_id:\s*(\d+)", text, re.MULTILINE)}
    return found


def front_of(daemon):
    """The process that handles what the programs send."""
    return daemon.front()


def memory_bytes(pid, field):
    """A field of /proc/PID/status, such as VmHWM."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)[1]) * 1024


def cpu_ns(pids):
    """Time on a CPU of all threads of processes that are alive; utime and stime, in hundredths of a second, are too
    coarse."""
    return sum(int(pathlib.Path(path).read_text().split()[0]) for pid in pids
               for path in glob.glob(f"/proc/{pid}/task/*/schedstat"))


def ring_bytes(pid):
    """Memory of a process that is BPF maps, each page as often as it is mapped: rings are mapped twice in a row."""
    mapping = r"^[^\n]*bpf-map[^\n]*\n(?:\w+:[^\n]*\n)*?Rss:\s+(\d+) kB"
    text = pathlib.Path(f"/proc/{pid}/smaps").read_text()
    return sum(int(kb) * 1024 for kb in re.findall(mapping, text, re.MULTILINE))


def attached_ids(daemon):
    """As held_ids(), while probes are attached; else nothing."""
    ids = held_ids(daemon)
    return ids if any(kind == "link" for kind, _ in ids) else set()


def wait_attached(daemon):
    """Until probes are being attached: attached_ids() then."""
    return harness.wait_until(lambda: attached_ids(daemon), harness.ANSWER_TIMEOUT_S, "probes are attached")


def wait_detached(daemon):
    """Until a capture has left nothing behind: that goes on after its answer."""
    front = front_of(daemon)
    harness.wait_until(lambda: not held_ids(daemon) and not ring_bytes(front), 10, "the probes are detached")
