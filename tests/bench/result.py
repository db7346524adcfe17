# SPDX-License-Identifier: Apache-2.0
"""What the benches found: rows of a table, each with its spread and, where there is one, the bar that it is held to."""
import dataclasses
import math
import statistics

import interval as intervals


@dataclasses.dataclass
class Result:
    """A measured value: the median of its samples, or value when one is given. bar is the most that it may be, or, with
    at_least, the least; None: for information. With interval, which is the least number of samples for a verdict, the value is the
    mean, the spread its 95 % confidence interval, or known, and the whole of that has to be below the bar, or above it."""
    name: str
    unit: str
    samples: list
    bar: float | None = None
    at_least: bool = False
    value: float | None = None
    interval: int = 0
    known: tuple | None = None

    def __post_init__(self):
        if self.value is None:
            self.value = (statistics.mean if self.interval else statistics.median)(self.samples)

    def ends(self):
        """Of the interval; of all samples without one."""
        if not self.interval:
            return min(self.samples), max(self.samples)
        return self.known or intervals.of_mean(self.samples)

    @property
    def met(self):
        if self.bar is None:
            return None
        if not self.interval:
            return self.value >= self.bar if self.at_least else self.value <= self.bar
        low, high = self.ends()
        return len(self.samples) >= self.interval and (low > self.bar if self.at_least else high < self.bar)

    def as_dict(self):
        return {**dataclasses.asdict(self), "ends": self.ends(), "met": self.met}


def number(value):
    """Four digits, and thousands apart."""
    if not math.isfinite(value):
        return "not known"
    if abs(value) >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) >= 0.01 else f"{value:.2g}"


def spread(result):
    """The interval in brackets, or the range of the samples."""
    if len(result.samples) < 2:
        return ""
    low, high = map(number, result.ends())
    return f"[{low}, {high}]" if result.interval else f"{low} to {high}"


def print_table(title, results):
    """Prints a part's results at once, so that one can follow a long run."""
    print(f"\n{title}\n{'':4}{'':70} {'value':>10} {'unit':8} {'n':>4} {'95 % or range':>22} {'bar':>10}")
    for r in results:
        bar = "" if r.bar is None else f"{'>=' if r.at_least else '<='} {number(r.bar)}"
        too_few = r.met is False and len(r.samples) < r.interval
        verdict = f"too few: {r.interval} needed" if too_few else {None: "", True: "met", False: "NOT MET"}[r.met]
        row = f"{'':4}{r.name:70} {number(r.value):>10} {r.unit:8} {len(r.samples):>4} {spread(r):>22} {bar:>10}  {verdict}"
        print(row.rstrip(), flush=True)
