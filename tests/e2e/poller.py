#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls Monitor and Health/Check of a daemon in turn, and prints each call's time in seconds. A process of its own: nothing else in it delays
the calls.

usage: poller.py ADDRESS SECONDS
"""
import json
import sys
import time

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

import harness

PAUSE_S = 0.004


def main():
    address, seconds = sys.argv[1], float(sys.argv[2])
    service = harness.profiler_service()
    channel = grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)])
    health = health_pb2_grpc.HealthStub(channel)
    monitor = channel.unary_unary("/tensorflow.ProfilerService/Monitor", request_serializer=lambda m: m.SerializeToString(),
                                  response_deserializer=service.MonitorResponse.FromString)
    calls = (lambda: health.Check(health_pb2.HealthCheckRequest(), timeout=60),
             lambda: monitor(service.MonitorRequest(duration_ms=1, monitoring_level=1), timeout=60))
    for call in calls:
        call()
    print("ready", flush=True)
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        for call in calls:
            begin = time.monotonic()
            call()
            times.append(time.monotonic() - begin)
        time.sleep(PAUSE_S)
    print(json.dumps(times))


if __name__ == "__main__":
    main()
