"""Static probes: those that a server has for us mark its requests, and the kernel's counter in the server is told of and taken back."""
import pathlib
import signal
import statistics

import harness

FIXTURES = harness.BUILD / "fixtures"


class Marks(harness.TestCase):
    def test_marked_requests_are_seen_by_number_from_begin_to_end_and_the_semaphore_goes_back(self):
        before = harness.bpf_objects()
        daemon = self.start(harness.Daemon)
        server = self.start(harness.Process, "marking", [FIXTURES / "marking", FIXTURES / "libtensorflow_framework.so.2"])
        server.wait_ready(lambda: server.line("ready"))
        harness.wait_target(daemon, server.pid)
        plan = harness.ctl(daemon, "plan", "--pid", server.pid, "--json").json
        probes = {p["symbol"].split()[0]: p for p in plan["targets"][0]["probes"] if p["source"] == "USDT"}
        self.assertEqual(set(probes), {"tfprof:request_begin", "tfprof:request_end"})
        for probe in probes.values():
            self.assertEqual((probe["class"], probe["instruction"], probe["planted"]), ("emulated", "nop", True))
        self.assertFalse(probes["tfprof:request_begin"]["semaphore_offset"])
        self.assertTrue(probes["tfprof:request_end"]["semaphore_offset"])
        text = harness.ctl(daemon, "plan", "--pid", server.pid).stdout
        self.assertRegex(text, "kernel increments a counter in the process")

        address = harness.ctl_targets(daemon)[server.pid]["address"]
        xspace = harness.response_xspace(harness.profile(address, duration_ms=1000, level=1))
        requests = xspace.events("Request")
        whole = [e for e in requests if "cut" not in e.stats and "end" not in e.stats]
        self.assertGreater(len(whole), 100)
        numbers = [e.stats["id"] for e in whole]
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))
        durations = [e.duration_ps / 1e9 for e in whole]
        self.assertGreaterEqual(min(durations), 2)
        self.assertLess(statistics.median(durations), 2.9)     # the pause between two is no part of them
        self.assertEqual(harness.leftovers(before, 5, daemon), [])
        server.send(signal.SIGTERM)
        server.wait(10)
        m = server.line(r"requests (\d+), watched (\d+)")
        # Watched in the capture, and not before or after it.
        self.assertGreater(int(m[2]), 100)
        self.assertLess(int(m[2]), int(m[1]) - 50)
        self.assertLess(int(m[2]), 600)

    def test_program_without_marks_is_no_file_of_its_target(self):
        daemon = self.start(harness.Daemon)
        server = self.start(harness.NativeServer, ["half_plus_two"])
        harness.wait_target(daemon, server.pid)
        plan = harness.ctl(daemon, "plan", "--pid", server.pid, "--json").json
        files = {pathlib.Path(f["path"]).name for f in plan["targets"][0]["files"]}
        self.assertEqual(files, {"libtensorflow_framework.so.2", "libtensorflow_cc.so.2"})


if __name__ == "__main__":
    harness.main()
