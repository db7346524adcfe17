#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon's gRPC as others' tools see it: h2spec, grpcurl, and grpcio's clients for health and reflection. As root."""
import json
import re
import signal

import grpc
from google.protobuf import descriptor_pool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import proto_reflection_descriptor_database
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

import harness

TOOLS = harness.BUILD / "go/bin"
SERVICES = ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection",
            "tensorflow.ProfileAnalysis", "tensorflow.ProfilerService", "tfprofd.Control"]
# One test asks for a stream number below an earlier one to be an error of the connection: libnghttp2 lets it pass on purpose.
H2SPEC_PASSES = 144
UNKNOWN_SERVICE = "no.such.Service"


class Grpc(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon = self.start(harness.Daemon)

    def channel(self, address=None):
        channel = grpc.insecure_channel(address or self.daemon.address,
                                        options=[("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)])
        self.addCleanup(channel.close)
        return channel

    def test_h2spec(self):
        host, port = self.daemon.address.split(":")
        done = harness.run(TOOLS / "h2spec", "-h", host, "-p", port, "-o", 2)
        counts = re.search(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed", done.stdout)
        print(f"     {counts[0]}")
        self.assertGreaterEqual(int(counts[2]), H2SPEC_PASSES, done.stdout)

    def grpcurl(self, *arguments):
        done = harness.run(TOOLS / "grpcurl", "-plaintext", *arguments)
        self.assertEqual(done.status, 0, done.stderr)
        return done.stdout

    def test_grpcurl_lists_describes_and_calls(self):
        # This release of it would call the server by the socket's path, which is no name of a host.
        for where in ([self.daemon.address], ["-authority", "localhost", "-unix", self.daemon.socket]):
            self.assertEqual(self.grpcurl(*where, "list").split(), SERVICES)
            for service in SERVICES:
                self.assertIn(f"{service} is a service", self.grpcurl(*where, "describe", service))
            text = self.grpcurl(*where, "describe", "tensorflow.ProfileRequest")
            self.assertIn("string session_id = 6;", text)
            self.assertIn("rpc Capture", self.grpcurl(*where, "describe", "tfprofd.Control.Capture"))
            found = json.loads(self.grpcurl(*where, "tensorflow.ProfilerService/Monitor"))
            self.assertRegex(found["data"], r"^tfprofd on \S+: \d+ process(es)? to profile")
            found = json.loads(self.grpcurl(*where, "grpc.health.v1.Health/Check"))
            self.assertEqual(found, {"status": "SERVING"})

    def test_unserved_names_are_not_described(self):
        done = harness.run(TOOLS / "grpcurl", "-plaintext", self.daemon.address, "describe", "tensorflow.ProfilerServic")
        self.assertNotEqual(done.status, 0)
        self.assertIn("Symbol not found: tensorflow.ProfilerServic", done.stderr)

    def test_reflection_by_grpcio(self):
        database = proto_reflection_descriptor_database.ProtoReflectionDescriptorDatabase(self.channel())
        self.assertEqual(sorted(database.get_services()), SERVICES)
        pool = descriptor_pool.DescriptorPool(database)
        method = pool.FindMethodByName("tensorflow.ProfilerService.Profile")
        self.assertEqual(method.input_type.full_name, "tensorflow.ProfileRequest")
        self.assertEqual(pool.FindMessageTypeByName("tfprofd.CaptureReply").full_name, "tfprofd.CaptureReply")
        with self.assertRaises(KeyError):
            pool.FindMessageTypeByName("tensorflow.NoSuchMessage")

    def test_each_request_of_a_reflection_call_is_answered(self):
        stub = reflection_pb2_grpc.ServerReflectionStub(self.channel())
        requests = [reflection_pb2.ServerReflectionRequest(host="here", file_by_filename="reflection_v1alpha.proto"),
                    reflection_pb2.ServerReflectionRequest(file_by_filename="../profiler_service.proto"),
                    reflection_pb2.ServerReflectionRequest(file_containing_symbol="tensorflow.ProfilerService.Profile"),
                    reflection_pb2.ServerReflectionRequest(file_containing_symbol="tensorflow"),
                    reflection_pb2.ServerReflectionRequest(file_containing_symbol=""),
                    reflection_pb2.ServerReflectionRequest(all_extension_numbers_of_type="tensorflow.ProfileRequest"),
                    reflection_pb2.ServerReflectionRequest()]
        answers = list(stub.ServerReflectionInfo(iter(requests), timeout=harness.ANSWER_TIMEOUT_S))
        self.assertEqual([a.original_request for a in answers], requests)
        self.assertEqual((answers[0].valid_host, len(answers[0].file_descriptor_response.file_descriptor_proto)), ("here", 2))
        self.assertEqual(len(answers[2].file_descriptor_response.file_descriptor_proto), 1)
        self.assertEqual([a.error_response.error_code for a in answers], [0, 5, 0, 5, 5, 5, 3])

    def test_health_is_reported(self):
        stub = health_pb2_grpc.HealthStub(self.channel())
        for name in ("", *SERVICES):
            answer = stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=harness.ANSWER_TIMEOUT_S)
            self.assertEqual(answer.status, health_pb2.HealthCheckResponse.SERVING)
        with self.assertRaises(grpc.RpcError) as failed:
            stub.Check(health_pb2.HealthCheckRequest(service=UNKNOWN_SERVICE), timeout=harness.ANSWER_TIMEOUT_S)
        self.assertEqual(failed.exception.code(), grpc.StatusCode.NOT_FOUND)

    def test_watchers_are_notified_of_the_end(self):
        stub = health_pb2_grpc.HealthStub(self.channel(f"unix:{self.daemon.socket}"))
        states = health_pb2.HealthCheckResponse
        known = stub.Watch(health_pb2.HealthCheckRequest(), timeout=harness.ANSWER_TIMEOUT_S)
        unknown = stub.Watch(health_pb2.HealthCheckRequest(service=UNKNOWN_SERVICE), timeout=harness.ANSWER_TIMEOUT_S)
        self.assertEqual(next(known).status, states.SERVING)
        self.assertEqual(next(unknown).status, states.SERVICE_UNKNOWN)
        unknown.cancel()
        self.daemon.send(signal.SIGTERM)
        self.assertEqual(next(known).status, states.NOT_SERVING)
        with self.assertRaises(grpc.RpcError) as ended:
            next(known)
        self.assertEqual(ended.exception.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(self.daemon.wait(10), 0)

    def test_the_number_of_watchers_is_limited(self):
        stub = health_pb2_grpc.HealthStub(self.channel())
        watches = [stub.Watch(health_pb2.HealthCheckRequest(), timeout=harness.ANSWER_TIMEOUT_S) for _ in range(65)]
        ends = []
        for watch in watches:
            try:
                next(watch)
            except grpc.RpcError as error:
                ends.append(error.code())
        self.assertEqual(ends, [grpc.StatusCode.RESOURCE_EXHAUSTED])
        # Who has gone makes room.
        watches[0].cancel()
        harness.wait_until(lambda: self.can_watch(stub), 5, "a place is free")
        for watch in watches:
            watch.cancel()

    def can_watch(self, stub):
        watch = stub.Watch(health_pb2.HealthCheckRequest(), timeout=harness.ANSWER_TIMEOUT_S)
        try:
            return next(watch).status == health_pb2.HealthCheckResponse.SERVING
        except grpc.RpcError:
            return False
        finally:
            watch.cancel()


if __name__ == "__main__":
    harness.main()
