# SPDX-License-Identifier: Apache-2.0
"""What the benches found: rows of a table, each with its spread and, where there is one, the bar that it is held to."""
import dataclasses
import statistics


@dataclasses.dataclass
class Result:
    """A measured value: the median of its samples, or value when one is given. bar is the most that it may be, or, with
    at_least, the least; None: for information."""
    name: str
    unit: str
    samples: list
    bar: float | None = None
    at_least: bool = False
    value: float | None = None

    def __post_init__(self):
        if self.value is None:
            self.value = statistics.median(self.samples)

    @property
    def met(self):
        if self.bar is None:
            return None
        return self.value >= self.bar if self.at_least else self.value <= self.bar

    def as_dict(self):
        return {**dataclasses.asdict(self), "met": self.met}


def number(value):
    """Four digits, and thousands apart."""
    if value != value:
        return "not known"
    if abs(value) >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.4g}"


def spread(samples):
    return f"{number(min(samples))} to {number(max(samples))}" if len(samples) > 1 else ""


def print_table(title, results):
    """Prints a part's results at once, so that one can follow a long run."""
    print(f"\n{title}\n{'':4}{'':62} {'median':>10} {'unit':12} {'spread':>22} {'bar':>10}")
    for r in results:
        bar = "" if r.bar is None else f"{'>=' if r.at_least else '<='} {number(r.bar)}"
        verdict = {None: "", True: "met", False: "NOT MET"}[r.met]
        row = f"{'':4}{r.name:62} {number(r.value):>10} {r.unit:12} {spread(r.samples):>22} {bar:>10}  {verdict}"
        print(row.rstrip(), flush=True)
