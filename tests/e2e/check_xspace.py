#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that an XSpace obeys the rules whose violation silently breaks pages of TensorBoard's Profile plugin.

usage: check_xspace.py FILE [FILE ...]

Prints one line per file that passes; prints every rule that a file breaks, with the first place, and exits 1.
"""
import collections
import re
import sys

import harness

INTEGER_STATS = {"id", "_r", "_pt", "_ct", "step_num", "tid", "pid", "batching_input_task_size", "size",
                 "batch_size_before_padding", "batch_size_after_padding", "padding_amount", "_ipl_stage_id",
                 "bytes_reserved", "bytes_allocated", "bytes_available", "peak_bytes_in_use", "requested_bytes",
                 "allocation_bytes", "addr", "data_type", "flow", "request", "status", "grpc_status"}
CONTEXT_STATS = {"_p", "_c"}
CONTEXT_BATCH = 4  # every task of a batch makes its batch's context
STEP_MARKER = re.compile(r"(train|test|TraceContext)[^/]*$")
READS_AS_OPERATION = re.compile(r"[^:]*:[^ :]")
DERIVED_LINES = range(0xDEADBEEF, 0xDEADBEEF + 389)
SECOND = 10**9


class Checker:
    def __init__(self, data):
        self.broken = collections.OrderedDict()
        self.producers = {}
        self.n_events = self.n_operations = self.n_contexts_used = 0
        self.space = harness.xplane_class().FromString(data)
        self.size = len(data)

    def require(self, condition, rule, place):
        if not condition:
            self.broken.setdefault(rule, []).append(place)

    def run(self):
        self.require(self.size < 2**31, "a message is shorter than 2 GiB", self.size)
        self.require(self.space.hostnames, "hostnames is set", "XSpace")
        for field in ("id", "name"):
            count = collections.Counter(getattr(plane, field) for plane in self.space.planes)
            for value, n in count.items():
                self.require(n == 1, f"plane {field}s are unique", value)
        bases = {line.timestamp_ns for plane in self.space.planes for line in plane.lines}
        self.require(len(bases) <= 1, "timestamp_ns is the same on all lines", sorted(bases)[:5])
        self.require(all(0 < base < SECOND for base in bases), "timestamp_ns is small and above 0", sorted(bases)[:5])
        for plane in self.space.planes:
            self.check_plane(plane)
        self.check_environment()
        if not self.n_events:
            self.require(any(text.startswith("No activity") for text in self.space.warnings),
                         "an XSpace without events has a warning about it", list(self.space.warnings))
        return not self.broken

    def check_plane(self, plane):
        if plane.name.startswith("/device:CUSTOM:"):
            self.require(0 <= plane.id <= 199, "ids of custom planes are within 0..199", plane.name)
        for table, what in ((plane.event_metadata, "event"), (plane.stat_metadata, "stat")):
            for key, metadata in table.items():
                self.require(key == metadata.id and (key > 0 or plane.name == "/host:metadata"), f"{what} metadata: map key equals id, above 0",
                             (key, metadata.id))
        for metadata in plane.stat_metadata.values():
            self.require(metadata.name != "group_id", "no stat is named group_id", plane.name)
        if plane.name.startswith("/host:"):
            for metadata in plane.event_metadata.values():
                # Operations have the names that their model gives them, as in the runtime's own profiler.
                self.require(":" in metadata.name or not STEP_MARKER.match(metadata.name), "no event is taken for a step marker", metadata.name)
        tracks = collections.Counter((line.display_id or line.id) & 0xFFFFFFFF for line in plane.lines)
        for track, n in tracks.items():
            self.require(n == 1, "lines of a plane have tracks of their own", (plane.name, track))
        for stat in plane.stats:
            self.check_stat(plane, stat, plane.name)
        for line in plane.lines:
            self.check_line(plane, line)

    def check_line(self, plane, line):
        place = f"{plane.name} {line.name}"
        self.require(line.events, "no line is empty", place)
        last = (-1, 0)
        for index, event in enumerate(line.events):
            here = f"{place} event {index}"
            self.require(event.WhichOneof("data") == "offset_ps", "an event's offset is set", here)
            self.require(event.offset_ps >= 0 and event.duration_ps >= 0, "times are not negative", here)
            key = (event.offset_ps, -event.duration_ps)
            self.require(last <= key, "a line is sorted by offset, longer events first", here)
            last = key
            self.require(event.metadata_id in plane.event_metadata, "event metadata exists", here)
            self.require(not (line.name.startswith("requests ") and
                              READS_AS_OPERATION.match(plane.event_metadata[event.metadata_id].name)),
                         "nothing of a request reads as an operation", here)
            if event.stats:
                self.check_event_stats(plane, line, event, here)
        self.n_events += len(line.events)
        self.n_operations += sum(":" in plane.event_metadata[event.metadata_id].name.rpartition("/")[2]
                                 and bool(plane.event_metadata[event.metadata_id].display_name)
                                 for event in line.events if event.metadata_id in plane.event_metadata)

    def check_event_stats(self, plane, line, event, place):
        values = {}
        for stat in event.stats:
            name = self.check_stat(plane, stat, place)
            self.require(name not in values, "an event has a stat once", f"{place}: {name}")
            values[name] = stat
        produces, consumes = "_p" in values, "_c" in values
        self.require(produces == ("_pt" in values) and consumes == ("_ct" in values),
                     "a context has a type and an id", place)
        self.require(not (produces and consumes), "no event both makes and uses a context", place)
        if produces and "_pt" in values:
            context = (values["_pt"].int64_value, self.integer(values["_p"]))
            self.require(context not in self.producers or context[0] == CONTEXT_BATCH, "contexts are unique in the XSpace",
                         f"{context}: {self.producers.get(context)} and {place}")
            self.producers[context] = place
        self.n_contexts_used += consumes
        if "_r" in values and values["_r"].int64_value == -1:
            self.require("model_id" in values, "every request has a model_id", place)
        if "_ipl_stage_id" in values:
            self.require(self.integer(values["_ipl_stage_id"]) > 2**32, "input stage ids are above 2^32", place)
        if plane.event_metadata[event.metadata_id].name == "MemoryAllocation" and "tf_op" in values:
            self.require(line.id in DERIVED_LINES, "allocations with tf_op are on a derived line", place)

    def check_stat(self, plane, stat, place):
        self.require(stat.metadata_id in plane.stat_metadata, "stat metadata exists", place)
        name = plane.stat_metadata[stat.metadata_id].name if stat.metadata_id in plane.stat_metadata else ""
        kind = stat.WhichOneof("value")
        self.require(kind is not None, "a stat has a value", f"{place}: {name}")
        if name in INTEGER_STATS:
            self.require(kind == "int64_value", "integer stats are int64", f"{place}: {name} is {kind}")
        if name in CONTEXT_STATS:
            self.require(kind == "int64_value" or (kind == "uint64_value" and stat.uint64_value >= 2**63),
                         "contexts are int64, or uint64 from 2^63 up", f"{place}: {name} is {kind}")
        if kind == "ref_value":
            self.require(stat.ref_value in plane.stat_metadata, "a string's ref_value exists", f"{place}: {name}")
        return name

    @staticmethod
    def integer(stat):
        return stat.uint64_value if stat.WhichOneof("value") == "uint64_value" else stat.int64_value

    def check_environment(self):
        planes = [plane for plane in self.space.planes if plane.name == "Task Environment"]
        self.require(len(planes) == 1, "there is one Task Environment", len(planes))
        for plane in planes:
            stats = {plane.stat_metadata[stat.metadata_id].name: stat for stat in plane.stats}
            start, stop = stats.get("profile_start_time"), stats.get("profile_stop_time")
            ok = (start is not None and stop is not None and start.uint64_value > 10**18 and
                  stop.uint64_value >= start.uint64_value)
            self.require(ok, "Task Environment has start and stop as uint64 Unix nanoseconds", sorted(stats))

    def summary(self):
        lines = sum(len(plane.lines) for plane in self.space.planes)
        return (f"{len(self.space.planes)} planes, {lines} lines, {self.n_events} events, "
                f"{self.n_operations} operations, {len(self.producers)} contexts used "
                f"{self.n_contexts_used} times, {self.size} bytes")


def check(path):
    try:
        with open(path, "rb") as file:
            checker = Checker(file.read())
    except Exception as error:
        print(f"{path}: cannot be read as an XSpace: {error}", file=sys.stderr)
        return False
    if checker.run():
        print(f"{path}: ok: {checker.summary()}")
        return True
    for rule, places in checker.broken.items():
        print(f"{path}: broken: {rule}: {places[0]}" + (f" and {len(places) - 1} more" if len(places) > 1 else ""),
              file=sys.stderr)
    return False


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    # Every file is checked, also after one that is broken.
    return 0 if all([check(path) for path in sys.argv[1:]]) else 1


if __name__ == "__main__":
    sys.exit(main())
