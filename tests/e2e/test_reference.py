"""Compares tfprofd's op events with those of TensorFlow's in-process profiler, on the same process, for the same window.

Both are asked to start at the same time, at level 3. An event of one is the same as one of the other when the names are
equal and they overlap, or their starts or ends lie within MATCH_NS; what lies near the edges of the window is only looked at as a partner."""

import bisect
import statistics
import time
import unittest

import harness

START_DELAY_NS = 1_500_000_000
DURATION_MS = 1500
EDGE_NS = 100_000_000   # the two windows differ by some milliseconds
MATCH_NS = 100_000
REACH_NS = 20_000_000
AGREEMENT = 0.9999
DURATION_ERROR_NS = 1000
OPS_WITHIN = 0.95
SAMPLES_MIN = 50        # below this a median says little


def ops_by_name(xspace):
    """{name: sorted [(start in Unix ns, duration in ns)]}"""
    begin = xspace.plane_stats["Task Environment"]["profile_start_time"]
    found = {}
    for e in xspace.events():
        if "::" not in e.name and harness.OP_NAME.fullmatch(e.name):
            found.setdefault(e.name, []).append((begin + e.start_ps / 1000, e.duration_ps / 1000))
    for events in found.values():
        events.sort()
    return found


def pair(ours, reference, first, last):
    """Pairs the events of the reference that lie in [first, last] with ours; returns the pairs of durations and how many
    of either side, in there, have no partner."""
    pairs, missing, used = [], 0, set()
    starts = [start for start, _ in ours]
    for start, duration in reference:
        if not first <= start <= last:
            continue
        low, high = bisect.bisect_left(starts, start - REACH_NS), bisect.bisect_right(starts, start + REACH_NS)

        def distance(i):
            # A thread can lose its CPU between the two profilers' starts, or between their ends, of one event.
            begin, end = starts[i] - start, starts[i] + ours[i][1] - start - duration
            overlap = starts[i] < start + duration and start < starts[i] + ours[i][1]
            return 0 if overlap else min(abs(begin), abs(end)), min(abs(begin), abs(end))

        best = min((i for i in range(low, high) if i not in used), key=distance, default=None)
        if best is None or distance(best)[0] > MATCH_NS:
            missing += 1
            continue
        used.add(best)
        pairs.append((ours[best][1], duration))
    extra = sum(1 for i, start in enumerate(starts) if first + REACH_NS <= start <= last - REACH_NS and i not in used)
    return pairs, missing, extra


class Reference(harness.TestCase):
    def compare(self, server, load_model):
        daemon = self.start(harness.Daemon)
        target = harness.wait_target(daemon, server.pid)
        if load_model:
            self.start(harness.Load, server, model=load_model, clients=2)
        time.sleep(1)
        at = time.time_ns() + START_DELAY_NS
        request = dict(duration_ms=DURATION_MS, level=3, emit_xspace=True, start_timestamp_ns=at)
        service = harness.profiler_service()
        calls = [harness.rpc(address, "Profile", harness.profile_request(**request), service.ProfileResponse)
                 for address in (server.profiler_address, target["address"])]
        reference, ours = (harness.response_xspace(future.result(120)) for _, future in calls)
        for channel, _ in calls:
            channel.close()
        self.assertEqual(ours.errors + ours.warnings, [])
        first, last = at + EDGE_NS, at + DURATION_MS * 1_000_000 - EDGE_NS
        theirs, mine = ops_by_name(reference), ops_by_name(ours)
        self.assertGreater(len(theirs), 3)
        self.assertEqual(sorted(set(theirs) - set(mine)), [], "op names of the reference that are not there")
        total = missing = extra = 0
        errors, worst = [], []
        for name, events in theirs.items():
            pairs, m, x = pair(mine[name], events, first, last)
            total, missing, extra = total + len(pairs) + m, missing + m, extra + x
            errors += [a - b for a, b in pairs]
            if len(pairs) >= SAMPLES_MIN:
                difference = statistics.median(a for a, _ in pairs) - statistics.median(b for _, b in pairs)
                worst.append((abs(difference), name, difference, len(pairs)))
        worst.sort(reverse=True)
        print(f"     {total} op events compared, {missing} missing, {extra} more; median error of the durations"
              f" {statistics.median(errors):.0f} ns; worst ops", *(f"{n} {d:+.0f} ns of {c}" for _, n, d, c in worst[:3]))
        self.assertGreater(total, 1000)
        self.assertGreaterEqual(1 - (missing + extra) / total, AGREEMENT)
        self.assertLessEqual(abs(statistics.median(errors)), DURATION_ERROR_NS)
        # Single ops: an op that fills the caches makes the reference's own bookkeeping after its end slow, which we see.
        within = sum(difference <= DURATION_ERROR_NS for difference, *_ in worst)
        self.assertGreaterEqual(within / len(worst), OPS_WITHIN)

    def test_native_server_ops_agree_with_the_in_process_profiler(self):
        server = self.start(harness.NativeServer, profiler=True)
        self.compare(server, "layered")

    def test_python_server_ops_agree_with_the_in_process_profiler(self):
        server = self.start(harness.GrpcServer, profiler=True)
        self.compare(server, "layered")


if __name__ == "__main__":
    harness.main()
