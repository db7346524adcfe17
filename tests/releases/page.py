# SPDX-License-Identifier: Apache-2.0
"""What the tests of several releases of a runtime share: wheels, runs of test cases with each, and docs/releases.md."""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/releases.md"
sys.path.insert(0, str(ROOT / "tests/e2e"))


def install(package, module, release, needs=()):
    """A directory with that release, and of what it needs only these packages; None: all. Needs network the first time."""
    directory = ROOT / f"build/releases/{package}-{release}"
    if not (directory / module).exists():
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *(() if needs is None else ("--no-deps", *needs)), "--target", directory,
                        f"{package}=={release}"], check=True)
    return directory


def run(cases, packages):
    """Runs the test cases with the packages of that directory: (passed, failed)."""
    suite = unittest.TestSuite()
    for case in cases:
        kind = type(case.__name__, (case,), {"packages": packages, "__module__": case.__module__})
        suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(kind))
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    failed = len(result.failures) + len(result.errors)
    return result.testsRun - failed, failed


def write(section, text):
    """Replaces a section of the page, or adds it."""
    page = PAGE.read_text()
    text = f"## {section}\n\n{text}"
    pattern = rf"## {section}\n.*?(?=\n## |\Z)"
    PAGE.write_text(re.sub(pattern, lambda _: text, page, flags=re.DOTALL) if re.search(pattern, page, re.DOTALL) else f"{page}\n{text}")


def main(runtime, package, module, releases, cases, figures, names, text, needs={}, get=None):
    """needs: by release, the packages that are installed with it, as install(); get: what installs a release instead, and returns its directory. Runs the cases with each release, and writes a row of the runtime's table of the figures with these names for each. Ends with "N passed, N failed"."""
    passed = failed = 0
    get = get or (lambda release: install(package, module, release, needs.get(release, ())))
    for release, packages in [(release, get(release)) for release in releases]:
        print(f"{runtime} {release}", flush=True)
        figures.clear()
        good, bad = run(cases, packages)
        passed, failed = passed + good, failed + bad
        text += f"| {release} | " + " | ".join(str(figures[name]) for name in names) + " |\n"
    if not failed:
        write(runtime, text)
    print(f"{passed} passed, {failed} failed")
    return bool(failed)
