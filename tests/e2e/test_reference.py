# SPDX-License-Identifier: Apache-2.0
"""Compares tfprofd's op events, and allocations, with those of TensorFlow's in-process profiler, on the same process, for the same window.

Both are asked to start at the same time, at level 3. An event of one is the same as one of the other when the names are
equal and they overlap, or their starts or ends lie within MATCH_NS; what lies near the edges of the window is only looked at as a partner."""

import bisect
import collections
import statistics
import time
import unittest

import harness

MEMORY = ["--profiler-memory"]
START_DELAY_NS = 1_500_000_000
DURATION_MS = 800
EDGE_NS = 100_000_000   # the two windows differ by some milliseconds
MATCH_NS = 100_000
NEAR_NS = 20_000
REACH_NS = 20_000_000
AGREEMENT = 0.9999
DURATION_ERROR_NS = 1000
OPS_WITHIN = 0.95
# Where a request of harness.profile_request() lets the profiler write.
WRITTEN = harness.LOGS / "e2e/e2e.xplane.pb"
# What the tests have compared so far, for tests/releases.
FIGURES = collections.Counter()
SAMPLES_MIN = 50        # below this a median means little


def begin_ns(xspace):
    return xspace.plane_stats["Task Environment"]["profile_start_time"]


def allocations(xspace):
    """{address: sorted [(Unix ns, name, bytes)]}; of deallocations the reference does not always know how many bytes."""
    found = {}
    for e in xspace.events():
        if e.name in ("MemoryAllocation", "MemoryDeallocation"):
            size = (e.stats["allocation_bytes"] or e.stats["requested_bytes"]) if e.name == "MemoryAllocation" else 0
            found.setdefault(e.stats["addr"], []).append((begin_ns(xspace) + e.start_ps / 1000, e.name, size))
    for events in found.values():
        events.sort()
    return found


def align(ours, reference):
    """What happens at an address is the same one after the other: how many of the reference's events there are not in ours, where they
    are put beside each other so that the least of them is missing and they are the nearest in time."""
    at = bisect.bisect(ours, reference[0])
    found = []
    for shift in range(at - 4, at + 4):
        beside = [ours[i] if 0 <= i < len(ours) else None for i in range(shift, shift + len(reference))]
        missing = sum(not mine or mine[1:] != theirs[1:] for mine, theirs in zip(beside, reference))
        found.append((missing, sum(abs(mine[0] - theirs[0]) for mine, theirs in zip(beside, reference) if mine)))
    return min(found)[0]


def ops_by_name(xspace):
    """{name: sorted [(start in Unix ns, duration in ns)]}"""
    begin = begin_ns(xspace)
    return {name: sorted((begin + e.start_ps / 1000, e.duration_ps / 1000) for e in events) for name, events in xspace.op_events().items()}


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


def answer_of(response):
    """Its XSpace. Releases before 2.21 write it to a file in place of the answer."""
    return harness.response_xspace(response) if response.xspace or response.tool_data else harness.XSpace(WRITTEN.read_bytes())


def place(reference, ours):
    """Releases before 2.18 do not state when their window began: it did when the most executions of its rarest op agree."""
    if "Task Environment" in reference.plane_stats:
        return
    theirs = {name: [e.start_ps // 1000 for e in events] for name, events in reference.op_events().items() if len(events) >= SAMPLES_MIN}
    name = min(theirs, key=lambda name: len(theirs[name]))
    starts, own = sorted(theirs[name]), [start for start, _ in ops_by_name(ours)[name]]

    def agreeing(begin):
        return sum(bisect.bisect(own, begin + start + NEAR_NS) > bisect.bisect_left(own, begin + start - NEAR_NS) for start in starts)

    begin = max((start - starts[len(starts) // 2] for start in own), key=agreeing)
    reference.plane_stats["Task Environment"] = {"profile_start_time": begin}


class Reference(harness.TestCase):
    def native(self, **how):
        return self.start(harness.NativeServer, profiler=True, arguments=MEMORY, **how)

    def python(self):
        return self.start(harness.GrpcServer, profiler=True)

    def check_complete(self, ours):
        """Nothing is missing, and nothing was lost."""
        self.assertEqual(ours.errors + ours.warnings, [])

    def capture(self, server, load_model=None):
        """What both saw in the same window, and when that was, without its edges."""
        daemon = self.start(harness.Daemon)
        target = harness.wait_target(daemon, server.pid)
        harness.read_files(daemon, server)
        if load_model:
            self.start(harness.Load, server, model=load_model, clients=2)
        time.sleep(0.5)
        WRITTEN.unlink(missing_ok=True)
        at = time.time_ns() + START_DELAY_NS
        request = dict(duration_ms=DURATION_MS, level=3, emit_xspace=True, start_timestamp_ns=at)
        service = harness.profiler_service()
        calls = [harness.rpc(address, "Profile", harness.profile_request(**request), service.ProfileResponse)
                 for address in (server.profiler_address, target["address"])]
        reference, ours = (answer_of(future.result(120)) for _, future in calls)
        for channel, _ in calls:
            channel.close()
        self.check_complete(ours)
        place(reference, ours)
        return reference, ours, (at + EDGE_NS, at + DURATION_MS * 1_000_000 - EDGE_NS)

    def compare_allocations(self, reference, ours, window):
        """Each block that the reference saw is there with its size, and within an op that ran then."""
        first, last = window
        mine, theirs = allocations(ours), allocations(reference)
        total, missing, ops, named, right = 0, 0, {}, 0, 0
        for address, events in theirs.items():
            inside = [e for e in events if first <= e[0] <= last]
            if inside:
                total += len(inside)
                missing += align(mine.get(address, []), inside)
        for name, events in ops_by_name(reference).items():
            ops.setdefault(name.rpartition(":")[0], []).extend(events)
        seen = [(begin_ns(ours) + e.start_ps / 1000, e) for e in ours.events("MemoryAllocation")]
        seen = [(at, e) for at, e in seen if first <= at <= last]
        for at, e in seen:
            if "tf_op" in e.stats:
                named += 1
                right += any(start - MATCH_NS <= at <= start + duration + MATCH_NS for start, duration in ops.get(e.stats["tf_op"], []))
        print(f"     {total} allocations and deallocations compared, {missing} missing; {len(seen)} allocations, {named} of them in an op,"
              f" {right} in the right one")
        FIGURES.update(allocations=total, missing_allocations=missing)
        self.assertGreater(total, 1000)
        self.assertGreaterEqual(1 - missing / total, AGREEMENT)
        for name in "MemoryAllocation", "MemoryDeallocation":
            counts = [sum(e[1] == name and first <= e[0] <= last for events in found.values() for e in events)
                      for found in (mine, theirs)]
            self.assertAlmostEqual(*counts, delta=0.002 * counts[1] + 4, msg=name)
        self.assertGreater(named, 1000)
        self.assertGreaterEqual(right / named, AGREEMENT)

    def compare_ops(self, reference, ours, window):
        theirs, mine = ops_by_name(reference), ops_by_name(ours)
        self.assertGreater(len(theirs), 3)
        self.assertEqual(sorted(set(theirs) - set(mine)), [], "op names of the reference that are not there")
        total = missing = extra = 0
        errors, worst = [], []
        for name, events in theirs.items():
            pairs, m, x = pair(mine[name], events, *window)
            total, missing, extra = total + len(pairs) + m, missing + m, extra + x
            errors += [a - b for a, b in pairs]
            if len(pairs) >= SAMPLES_MIN:
                difference = statistics.median(a for a, _ in pairs) - statistics.median(b for _, b in pairs)
                worst.append((abs(difference), name, difference, len(pairs)))
        worst.sort(reverse=True)
        print(f"     {total} op events compared, {missing} missing, {extra} more; median error of the durations"
              f" {statistics.median(errors):.0f} ns; worst ops", *(f"{n} {d:+.0f} ns of {c}" for _, n, d, c in worst[:3]))
        FIGURES.update(operations=total, missing=missing, extra=extra)
        FIGURES["error_ns"] = max(FIGURES["error_ns"], abs(round(statistics.median(errors))))
        self.assertGreater(total, 1000)
        self.assertGreaterEqual(1 - (missing + extra) / total, AGREEMENT)
        self.assertLessEqual(abs(statistics.median(errors)), DURATION_ERROR_NS)
        # Single ops: an op that fills the caches makes the reference's own bookkeeping after its end slow, which we see.
        within = sum(difference <= DURATION_ERROR_NS for difference, *_ in worst)
        self.assertGreaterEqual(within / len(worst), OPS_WITHIN)

    def test_native_server_ops_and_allocations_agree_with_the_in_process_profiler(self):
        captured = self.capture(self.native(), "layered")
        self.compare_ops(*captured)
        self.compare_allocations(*captured)

    def test_large_tensors_of_onednns_allocator_agree_with_the_in_process_profiler(self):
        self.compare_allocations(*self.capture(self.native(models=["layered"], prefix=["env", "TF_ENABLE_ONEDNN_OPTS=1"], self_load=1, rows=1024)))

    def test_python_server_ops_agree_with_the_in_process_profiler(self):
        self.compare_ops(*self.capture(self.python(), "layered"))


if __name__ == "__main__":
    harness.main()
