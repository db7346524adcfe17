#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of README.md and docs/cost.md, made from tests/bench/results.json and from nothing else; --check, which `make lint` runs, prints each file
whose table is another one, --write writes them."""
import pathlib
import sys

import stored

ROOT = pathlib.Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- make bench writes what follows -->", "<!-- make bench has written this -->"
HEAD = "| measured | result | 95 % interval or range | bar | |\n|---|---|---|---|---|"


def number(value):
    if abs(value) >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def with_unit(value, unit):
    return f"{number(value)} {unit.replace('us', 'µs')}".rstrip()


def bar_of(row):
    return f"{'at least' if row['at_least'] else '≤'} {with_unit(row['bar'], row['unit'])}"


def line(row):
    spread = f"{number(row['low'])} to {number(row['high'])}, {row['n']} {'samples' if row['interval'] else 'rounds'}" if row["n"] > 1 else ""
    bar = "" if row["bar"] is None else bar_of(row)
    verdict = {None: "", True: "met", False: "**not met**"}[row["met"]]
    return f"| {row['name']} | {with_unit(row['value'], row['unit'])} | {spread} | {bar} | {verdict} |"


def machine(found):
    return f"{found['date']}, Linux {found['kernel']}, {found['cpus']} × {found['cpu']}"


def with_bars(rows, met):
    return "; ".join(f"{row['name']}: {with_unit(row['value'], row['unit'])} ({bar_of(row)})" for row in rows if row["met"] is met)


def of_readme(parts):
    """What has a bar, a line for each part."""
    rows = [f"| {found['title']} | {with_bars(found['results'], True)} | {with_bars(found['results'], False)} |"
            for found in parts.values() if any(row["bar"] is not None for row in found["results"])]
    if not rows:
        return "No result of `make bench` is stored."
    machines = sorted({machine(found) for found in parts.values()})
    return "\n".join(["| | met | not met |\n|---|---|---|", *rows, "", f"Measured: {'; '.join(machines)}."])


def of_cost(parts):
    """Everything, by part."""
    if not parts:
        return "No result of `make bench` is stored."
    return "\n\n".join(f"### {found['title']}\n\n`BENCH_ONLY={name}`, {found['took_s'] // 60 + 1} min; {machine(found)}.\n\n" + "\n".join([HEAD, *map(line, found["results"])])
                       for name, found in parts.items())


FILES = {"README.md": of_readme, "docs/cost.md": of_cost}


def replaced(text, table):
    """ValueError: it has not each of the two markers once."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError("the markers of the table are missing")
    return f"{text[:text.index(BEGIN)]}{BEGIN}\n\n{table}\n\n{text[text.index(END):]}"


def differing():
    """{path: its text with the table of the stored results}, of those that have another one."""
    parts, found = stored.read(), {}
    for name, make in FILES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        try:
            wanted = replaced(text, make(parts))
        except ValueError as e:
            raise ValueError(f"{name}: {e}") from e
        if wanted != text:
            found[ROOT / name] = wanted
    return found


def write():
    for path, text in differing().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        write()
    else:
        for differs in differing():
            print(f"{differs.relative_to(ROOT)}: its table is not what tests/bench/results.json has (tests/bench/tables.py --write)")
