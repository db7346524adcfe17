# SPDX-License-Identifier: Apache-2.0
"""A person's way through the real TensorBoard in a real browser: the dialog, the pages, and what is drawn on them. Charts that need code from
another host are not drawn here: of those pages the data that they asked for is looked at. Screenshots are in build/screenshots. As root."""
import json
import re
import shutil

import playwright.sync_api

import harness
import test_delays

SHOTS = harness.BUILD / "screenshots"
TIMES = 2
TIMEOUT_MS = 30_000
SOON_MS = 3000
ATTEMPTS = 5
MIDDLE = 900, 900
ZOOMS, KEY_MS = 10, 100
RATE = 100
SUCCESS = "Capture profile successfully. Please refresh."
TRACKS = ["requests in flight:", "requests queued:", "runnable threads:", "threads waiting for a CPU:", "allocated: cpu:", "requests 1"]


class Visitor:
    """A browser with a clean profile at a TensorBoard."""

    def __init__(self, chromium, board):
        self.board, self.data = board, {}
        self.context = chromium.new_context(viewport={"width": 1500, "height": 1000})
        self.page = self.context.new_page()
        self.page.set_default_timeout(TIMEOUT_MS)
        self.page.on("response", self.note)
        self.page.goto(f"http://127.0.0.1:{board.port}/#profile")

    def note(self, response):
        """Keeps what the pages asked for, by tool."""
        found = re.search(r"/profile/data\?.*\btag=([a-z_]+)", response.url)
        if found:
            self.data[found[1]] = response

    def asked_for(self, tool):
        """The JSON that a page got, which it may still wait for."""
        harness.wait_until(lambda: self.page.wait_for_timeout(100) or tool in self.data, 30, f"{tool} asks for its data")
        response = self.data[tool]
        assert response.status == 200, response.url
        return json.loads(response.body())

    def plugin(self):
        return self.page.frame_locator("iframe")

    def shoot(self, name):
        self.page.screenshot(path=SHOTS / f"{name}.png")

    def capture(self, address):
        plugin = self.plugin()
        plugin.get_by_role("button", name="Capture Profile").click()
        dialog = plugin.locator("mat-dialog-container")
        dialog.get_by_placeholder("localhost:6009,localhost:6010").fill(address)
        # Trace levels are choices: that of the host is the first.
        dialog.locator("mat-select").first.click()
        plugin.locator("mat-option", has_text="verbose").click()
        self.shoot("dialog")
        dialog.locator("button", has_text=re.compile(r"^\s*capture\s*$", re.I)).click()
        plugin.get_by_text(SUCCESS).wait_for()
        self.shoot("captured")

    def open(self, tool):
        """Chooses a page from the list of tools, which the trace viewer hides."""
        plugin = self.plugin()
        chooser = plugin.locator("mat-select").nth(1)
        for _ in range(ATTEMPTS):
            if not chooser.is_visible():
                plugin.get_by_text("menu", exact=True).first.click()
            try:
                chooser.click(timeout=SOON_MS)
                break
            except playwright.sync_api.TimeoutError:
                # The list was just hidden, or shown.
                continue
        plugin.locator("mat-option", has_text=tool).first.click()

    def zoom_in(self):
        """On the middle of the trace, down to some milliseconds, as the viewer's keys do."""
        self.page.mouse.click(*MIDDLE)
        for _ in range(ZOOMS):
            self.page.keyboard.press("w", delay=KEY_MS)
        self.page.wait_for_timeout(SOON_MS)

    def text(self, wanted):
        """All that is written on the page, when that is."""
        self.plugin().get_by_text(wanted).first.wait_for()
        return self.plugin().locator("body").inner_text()


class Browser(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.daemon = self.start(harness.Daemon)
        self.server = self.start(test_delays.Server, self.directory, ["layered"])
        self.address = harness.wait_target(self.daemon, self.server.pid)["address"]
        self.client = self.start(test_delays.Client, self.directory, self.server, "layered", "--rows", 64, "--width", 64, rate=RATE)
        SHOTS.mkdir(exist_ok=True)

    def test_a_user_captures_and_opens_five_pages_twice_with_a_clean_profile(self):
        with playwright.sync_api.sync_playwright() as driver:
            chromium = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-dev-shm-usage"])
            for i in range(TIMES):
                logdir = self.directory / f"logdir-{i}"
                board = self.start(harness.TensorBoard, logdir)
                visitor = Visitor(chromium, board)
                visitor.capture(self.address)
                file, = harness.xspace_files(logdir)
                with harness.paused(self.client):
                    self.look(visitor, harness.XSpace(file))
                visitor.context.close()
            chromium.close()

    def look(self, visitor, xspace):
        visitor.page.reload()
        self.look_at_overview(visitor)
        self.look_at_trace(visitor, xspace)
        self.look_at_ops(visitor, xspace)
        self.look_at_input(visitor)
        self.look_at_memory(visitor, xspace)

    def look_at_overview(self, visitor):
        text = visitor.text("Number of Hosts used: 1")
        for line in ("Device type: CPU", "Inference Session Latency Breakdown"):
            self.assertIn(line, text)
        tables = visitor.asked_for("overview_page")
        told = next(t["p"]["host_compute_time_ms_avg"] for t in tables if "host_compute_time_ms_avg" in (t.get("p") or {}))
        drawn = re.search(r"Host Compute Time\s+\(σ = [\d.]+ ms\)\s+([\d.]+) ms", text)
        self.assertEqual(drawn[1], told)
        self.assertGreater(float(told), 0)
        latencies = next(t for t in tables if t.get("cols") and t["cols"][0]["id"] == "percentile")
        self.assertEqual(len(latencies["rows"]), 6)
        visitor.shoot("overview")

    def look_at_trace(self, visitor, xspace):
        visitor.open("Trace Viewer")
        viewer = visitor.plugin().frame_locator("iframe")
        viewer.get_by_text("requests 1", exact=False).first.wait_for()
        text = viewer.locator("body").inner_text()
        workers = [name for name in xspace.lines() if name.startswith("tf_Compute/")]
        self.assertTrue(workers)
        # The kernel may keep the target on one CPU of the two.
        cpus = list(xspace.lines("/device:CUSTOM:sched"))
        self.assertTrue(cpus)
        for track in TRACKS + workers + cpus:
            self.assertIn(track, text)
        names = {e.get("name") for e in visitor.asked_for("trace_viewer")["traceEvents"]}
        self.assertLessEqual({"MatMul", "execute", "read", "ExecutorState::Process"}, names)
        visitor.shoot("trace_viewer")
        visitor.zoom_in()
        visitor.shoot("trace_viewer_near")

    def look_at_ops(self, visitor, xspace):
        visitor.open("Framework Op Stats")
        self.assertIn("ON HOST: TOTAL SELF-TIME", visitor.text("Framework Operations"))
        rows = harness.table_rows(visitor.asked_for("framework_op_stats")[0])
        shown = {f"{row['operation']}:{row['type']}": row["occurrences"] for row in rows if row["type"] == "MatMul"}
        counted = {name: len(times) for name, times in xspace.ops().items() if name.endswith(":MatMul")}
        self.assertTrue(counted)
        self.assertEqual(shown, counted)
        visitor.shoot("framework_op_stats")

    def look_at_input(self, visitor):
        visitor.open("Input Pipeline Analysis")
        visitor.text("Summary of input-pipeline analysis")
        told = next(t["p"] for t in visitor.asked_for("input_pipeline_analyzer") if "steptime_ms_average" in (t.get("p") or {}))
        # The page is there before its numbers are.
        text = visitor.text(f"Average: {told['steptime_ms_average']} ms")
        self.assertIn(f"Average: {told['steptime_ms_average']} ms", text)
        self.assertIn(told["input_conclusion"], text)
        visitor.shoot("input_pipeline")

    def look_at_memory(self, visitor, xspace):
        visitor.open("Memory Profile")
        text = visitor.text("Peak Memory Usage")
        peak = max(e.stats["bytes_allocated"] for e in xspace.events("MemoryAllocation"))
        profile = visitor.asked_for("memory_profile")["memoryProfilePerAllocator"]["cpu"]
        self.assertEqual(int(profile["profileSummary"]["peakStats"]["heapAllocatedBytes"]), peak)
        drawn = re.search(r"Profile-window Peak Memory Usage\s+.*\s+([\d.]+) (B|KiB|MiB)\b", text)
        self.assertAlmostEqual(float(drawn[1]) * {"B": 1, "KiB": 2**10, "MiB": 2**20}[drawn[2]], peak, delta=0.01 * peak)
        visitor.shoot("memory_profile")


if __name__ == "__main__":
    harness.main()
