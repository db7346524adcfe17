#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs releases of CPython in build/releases, from a Go module that has them: the builds of python-build-standalone, which uv installs, too. Needs network
the first time.

usage: pythons.py RELEASE…"""
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULE = "github.com/kluctl/go-embed-python"
# By release: the module's version, and its checksum as in go.sum.
RELEASES = {"3.10.16": ("20241219-1", "h1:bfJRrtWlbdrPtwXXXZzA95yj2Pr9AvSbxDEm8YvbaP0="),
            "3.11.11": ("20241219-1", "h1:yVXFTxa6cvhLC6TwkDEHmNaiWlDyaFEGiXd1DQdoeOU="),
            "3.12.3": ("20240415-1", "h1:IX2O3LJUL0AjYsROGZ4aNENTEb3c/Ll/0b9Yb/8P61Q="),
            "3.13.1": ("20241219-1", "h1:x1cSEj4Ug5mpuZgUHLvUmlc5r//KHFn6iYiRSrRcVy4="),
            "3.14.6": ("20260610-1", "h1:oGUS7++Wm3LgxUfD6AmJgKbKQD2wdQFO9PzyJv6T+E4=")}
# Of Go's file modes: the kinds of files.
DIRECTORY, LINK = 1 << 31, 1 << 27


def unpack(source, directory):
    """files.json names the files, of which some are compressed."""
    for entry in json.loads((source / "files.json").read_text())["files"]:
        path, packed = directory / entry["name"], source / (entry["name"] + ".gz")
        if entry["perm"] & DIRECTORY:
            path.mkdir(parents=True, exist_ok=True)
        elif entry["perm"] & LINK:
            path.symlink_to(entry["symlink"])
        else:
            path.write_bytes(gzip.decompress(packed.read_bytes()) if packed.exists() else (source / entry["name"]).read_bytes())
            path.chmod(entry["perm"] & 0o777)


def install(release):
    """The directory that has it, with bin/python3."""
    directory = ROOT / f"build/releases/cpython-{release}"
    if directory.exists():
        return directory
    version, checksum = RELEASES[release]
    environment = {**os.environ, "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local", "GOPATH": str(ROOT / "build/go"), "GOCACHE": str(ROOT / "build/go/cache")}
    # No other module's folder.
    found = json.loads(subprocess.run(["go", "mod", "download", "-json", f"{MODULE}@v0.0.0-{release}-{version}"], env=environment, cwd="/", check=True,
                                      capture_output=True, text=True).stdout)
    if found["Sum"] != checksum:
        sys.exit(f"pythons.py: the checksum of {release} is {found['Sum']}, not {checksum}")
    partly = directory.with_suffix(".partly")
    shutil.rmtree(partly, ignore_errors=True)
    partly.mkdir(parents=True)
    unpack(pathlib.Path(found["Dir"]) / "python/internal/data/linux-amd64", partly)
    partly.rename(directory)
    # The module has those of other systems, too.
    shutil.rmtree(found["Dir"])
    return directory


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        print(install(wanted))
