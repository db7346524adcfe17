# SPDX-License-Identifier: Apache-2.0
"""The statistics of the benches: differences of pairs, and the 95 % confidence interval of a mean by Student's t."""
import statistics

# 95 %, both sides.
QUANTILE = 0.975


def t_quantile(degrees):
    """Of Student's distribution for QUANTILE: by the expansion in 1 / degrees (Abramowitz and Stegun, 26.7.5), which is less than 1 % off from 4
    degrees on; below that, exact values."""
    exact = {1: 12.7062, 2: 4.30265, 3: 3.18245}
    if degrees in exact:
        return exact[degrees]
    z = statistics.NormalDist().inv_cdf(QUANTILE)
    terms = (z, (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
             (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160)
    return sum(term / degrees**i for i, term in enumerate(terms))


def of_mean(samples):
    """(lower end, upper end) of the interval of the mean; of fewer than two samples it is infinite."""
    if len(samples) < 2:
        return float("-inf"), float("inf")
    mean = statistics.mean(samples)
    half = t_quantile(len(samples) - 1) * statistics.stdev(samples) / len(samples) ** 0.5
    return mean - half, mean + half


def of_sum(first, second):
    """(lower end, upper end) of the interval of the sum of two means, of samples that have nothing to do with each other."""
    mean = statistics.mean(first) + statistics.mean(second)
    half = sum((of_mean(samples)[1] - statistics.mean(samples)) ** 2 for samples in (first, second)) ** 0.5
    return mean - half, mean + half


def of_size(samples):
    """(lower end, upper end) of how far the mean is from zero."""
    low, high = of_mean(samples)
    return max(low, -high, 0), max(-low, high)


def more(with_it, without):
    """Percent that each sample with it is more than the one without it beside it."""
    return [100 * (a / b - 1) for a, b in zip(with_it, without, strict=True)]


def less(with_it, without):
    """Percent that each sample with it is less."""
    return [100 * (1 - a / b) for a, b in zip(with_it, without, strict=True)]


def take_pairs(count, measure):
    """([what measure(True) gives], [what measure(False) gives]), one beside the other, count times; which of them is first alternates, so that a
    machine that becomes slower or faster favors neither."""
    found = {True: [], False: []}
    for number in range(count):
        for which in (True, False) if number % 2 else (False, True):
            found[which].append(measure(which))
    return found[True], found[False]
