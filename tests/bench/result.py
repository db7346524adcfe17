# SPDX-License-Identifier: Apache-2.0
"""What the benches found: rows of a table, each with its spread and, where there is one, the bar that it is held to."""
import dataclasses
import math
import statistics


# Student's t for 95 %, of many degrees of freedom; fewer than 20 samples have no interval.
INTERVAL_T, INTERVAL_SAMPLES = 2.02, 20


@dataclasses.dataclass
class Result:
    """A measured value: the median of its samples, or value when one is given. bar is the most that it may be, or, with
    at_least, the least; None: for information. With interval, the value is the mean, the spread its 95 % confidence interval, and the
    bar is for the end of that."""
    name: str
    unit: str
    samples: list
    bar: float | None = None
    at_least: bool = False
    value: float | None = None
    interval: bool = False

    def __post_init__(self):
        if self.value is None:
            self.value = (statistics.mean if self.interval else statistics.median)(self.samples)

    def ends(self):
        """Of the interval; of all samples without one."""
        if not self.interval:
            return min(self.samples), max(self.samples)
        half = (INTERVAL_T * statistics.stdev(self.samples) / len(self.samples) ** 0.5 if len(self.samples) >= INTERVAL_SAMPLES
                else float("inf"))
        return self.value - half, self.value + half

    @property
    def met(self):
        if self.bar is None:
            return None
        low, high = self.ends() if self.interval else (self.value, self.value)
        return low >= self.bar if self.at_least else high <= self.bar

    def as_dict(self):
        return {**dataclasses.asdict(self), "ends": self.ends(), "met": self.met}


def number(value):
    """Four digits, and thousands apart."""
    if not math.isfinite(value):
        return "not known"
    if abs(value) >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.4g}"


def spread(result):
    return " to ".join(map(number, result.ends())) if len(result.samples) > 1 else ""


def print_table(title, results):
    """Prints a part's results at once, so that one can follow a long run."""
    print(f"\n{title}\n{'':4}{'':62} {'median':>10} {'unit':12} {'spread':>22} {'bar':>10}")
    for r in results:
        bar = "" if r.bar is None else f"{'>=' if r.at_least else '<='} {number(r.bar)}"
        verdict = {None: "", True: "met", False: "NOT MET"}[r.met]
        row = f"{'':4}{r.name:62} {number(r.value):>10} {r.unit:12} {spread(r):>22} {bar:>10}  {verdict}"
        print(row.rstrip(), flush=True)
