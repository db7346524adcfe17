# SPDX-License-Identifier: Apache-2.0
"""What this kernel offers to BPF programs, asked without the product."""
import ctypes
import functools
import os
import re
import struct
import subprocess

import harness

TYPES = "/sys/kernel/btf/vmlinux"


@functools.cache
def has_socket_tracepoints():
    with open(TYPES, "rb") as types:
        return b"\0btf_trace_sock_send_length\0" in types.read()


@functools.cache
def traces_functions():
    """Whether programs may run where a function of the kernel returns: tried with an empty one."""
    types = subprocess.run([harness.BPFTOOL, "btf", "dump", "file", TYPES], capture_output=True, text=True).stdout
    function = re.search(r"^\[(\d+)\] FUNC 'inet_csk_accept'", types, re.M)
    if not function:
        return False
    code = struct.pack("<BBhiBBhi", 0xb7, 0, 0, 0, 0x95, 0, 0, 0)
    code_at, license_at = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL")
    # union bpf_attr of linux/bpf.h, for BPF_PROG_LOAD of a BPF_PROG_TYPE_TRACING with expected_attach_type BPF_TRACE_FEXIT.
    attr = bytearray(144)
    struct.pack_into("<IIQQ", attr, 0, 26, 2, ctypes.addressof(code_at), ctypes.addressof(license_at))
    struct.pack_into("<I", attr, 68, 25)
    struct.pack_into("<I", attr, 108, int(function[1]))
    fd = ctypes.CDLL(None, use_errno=True).syscall(321, 5, (ctypes.c_char * len(attr)).from_buffer(attr), len(attr))
    if fd >= 0:
        os.close(fd)
    return fd >= 0


def follows_at_sockets():
    """Whether sockets are followed without the tracepoints of system calls."""
    return has_socket_tracepoints() or traces_functions()


@functools.cache
def is_emulated():
    """Whether the guest's instructions are translated: programs, and all else, are slow then."""
    with open("/proc/cpuinfo") as cpus:
        return "QEMU TCG CPU" in cpus.read()
