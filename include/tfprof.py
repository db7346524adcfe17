# SPDX-License-Identifier: Apache-2.0
"""Marks that tfprofd sees, from Python: what a thread does, and which request it works for. Nothing happens at one unless a capture watches.

    import tfprof

    with tfprof.span("decode", request_id=17, codec="json"):
        ...
    with tfprof.request(17):
        ...
    tfprof.work_made(id(item)); queue.put(item)     # on the thread that has read the request, before it reads the next one
    with tfprof.work(id(item)):                     # on any thread
        ...

Each must end on the thread that it began on. Without libtfprof.so (beside this file, where the loader finds it, or named by TFPROF_LIBRARY)
they do nothing; tfprof.available says which.
"""
import contextlib
import ctypes
import os
import pathlib


def _load():
    for name in (os.environ.get("TFPROF_LIBRARY"), pathlib.Path(__file__).with_name("libtfprof.so"), "libtfprof.so"):
        with contextlib.suppress(OSError):
            if name:
                library = ctypes.CDLL(str(name))
                library.tfprof_begin_span.argtypes = [ctypes.c_char_p, ctypes.c_ulong]
                library.tfprof_begin_request.argtypes = [ctypes.c_uint64]
                for name in ("tfprof_make_work", "tfprof_begin_work", "tfprof_end_work"):
                    getattr(library, name).argtypes = [ctypes.c_uint64]
                return library
    return None


_library = _load()
available = _library is not None


def _text(name, arguments):
    # What separates them cannot be part of them.
    def plain(value, of):
        return str(value).translate({ord(c): " " for c in of})

    text = plain(name, "#")
    if arguments:
        text += "#" + ",".join(f"{key}={plain(value, '#,')}" for key, value in arguments.items()) + "#"
    return text.encode()


@contextlib.contextmanager
def span(name, **arguments):
    """What the thread does within; 96 bytes are kept of name and arguments. request_id and step_num are numbers that pages know."""
    if _library:
        text = _text(name, arguments)
        _library.tfprof_begin_span(text, len(text))
    try:
        yield
    finally:
        if _library:
            _library.tfprof_end_span()


@contextlib.contextmanager
def request(number):
    """The thread works for that request within."""
    if _library:
        _library.tfprof_begin_request(number)
    try:
        yield
    finally:
        if _library:
            _library.tfprof_end_request()


def work_made(number):
    """The thread has made work of the request that it read last; the number is that of no unfinished work."""
    if _library:
        _library.tfprof_make_work(number)


@contextlib.contextmanager
def work(number):
    """The thread does that work within."""
    if _library:
        _library.tfprof_begin_work(number)
    try:
        yield
    finally:
        if _library:
            _library.tfprof_end_work(number)
