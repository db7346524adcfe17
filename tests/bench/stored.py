# SPDX-License-Identifier: Apache-2.0
"""tests/bench/results.json: the latest result of every part, with the machine and the day, as parts may be measured on different occasions."""
import json
import math
import os
import pathlib
import platform
import re
import time

FILE = pathlib.Path(__file__).resolve().parent / "results.json"
DIGITS = 4


def machine():
    cpu = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return {"date": time.strftime("%Y-%m-%d"), "kernel": platform.release(), "cpu": cpu[1] if cpu else platform.machine(),
            "cpus": os.cpu_count(), "load_average": round(os.getloadavg()[0], 2)}


def rounded(value):
    return value if value is None or value == 0 or not math.isfinite(value) else round(value, DIGITS - 1 - math.floor(math.log10(abs(value))))


def row(r):
    """What is kept of a Result."""
    low, high = r.ends()
    return {"name": r.name, "value": rounded(r.value), "unit": r.unit, "n": len(r.samples), "interval": bool(r.interval),
            "low": rounded(low), "high": rounded(high), "bar": r.bar, "at_least": r.at_least, "met": r.met}


def read():
    """{part: what put() was given}"""
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def put(part, found):
    parts = read() | {part: found}
    FILE.write_text(json.dumps(dict(sorted(parts.items())), indent=1) + "\n", encoding="utf-8")
