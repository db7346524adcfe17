# SPDX-License-Identifier: Apache-2.0
"""The tool that tfprofd is compared with."""
import shutil
import subprocess


def available():
    """Whether bpftrace is there, by its Debian package if need be."""
    if shutil.which("bpftrace"):
        return True
    try:
        subprocess.run(["apt-get", "install", "-y", "-q", "--no-install-recommends", "bpftrace"], check=True,
                       timeout=180, stdin=subprocess.DEVNULL, capture_output=True)
        return bool(shutil.which("bpftrace"))
    except (OSError, subprocess.SubprocessError) as e:
        print(f"bpftrace: not measured, as it is not installed and could not be: {e}", flush=True)
        return False
