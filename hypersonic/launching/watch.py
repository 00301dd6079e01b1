# SPDX-License-Identifier: Apache-2.0
"""Stops a server when another process, such as cmsRun, has ended. hypersonic-cmsTriton -p starts it.

python -m hypersonic.launching.watch PID STARTED DIRECTORY KEEP
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from hypersonic.launching.instance import clean, process_of, running, stop

#: the process counts as ended after it was not found in this many consecutive polls, as in cmsTriton
MISSES = 5
#: polling interval in seconds
INTERVAL_S = 1.0


def watch(pid: int, started: str, directory: Path, *, keep: bool, interval_s: float = INTERVAL_S) -> bool:
    """Wait for the end of the process, then stop the server and remove its directory. False if that was removed before."""
    misses = 0
    while misses < MISSES:
        if not directory.is_dir():
            return False
        misses = 0 if running(pid, started) else misses + 1
        time.sleep(interval_s)
    found = process_of(directory) is not None
    stop(directory)
    clean(directory, None, keep=keep)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    pid, started, directory, keep = sys.argv[1:] if argv is None else argv
    watch(int(pid), started, Path(directory), keep=keep == "1")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
