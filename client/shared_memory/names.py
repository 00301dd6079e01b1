# SPDX-License-Identifier: Apache-2.0
"""The names of regions, hypersonic-<pid>-<start time of the process>-<number>, and the regions that dead processes have left.

The start time tells a process from a later one with the same id. Names that a server lists are matched as a whole before any
part of them is used.
"""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import suppress
from pathlib import Path

#: the directory in which Linux keeps POSIX shared memory
DIRECTORY = Path("/dev/shm")  # noqa: S108 - not a temporary file: the directory of shm_open(3)
_NAME = re.compile(r"hypersonic-([1-9][0-9]{0,9})-([0-9]{1,20})-[0-9]{1,10}", re.ASCII)


def make_name(number: int) -> str:
    """Return the name of this process's region of that number."""
    return f"hypersonic-{os.getpid()}-{_start_time(os.getpid())}-{number}"


def is_abandoned(name: str) -> bool:
    """Return whether this is the name of a region whose process has ended.

    Args:
        name: any text.
    """
    match = _NAME.fullmatch(name)
    return match is not None and _start_time(int(match[1])) != int(match[2])


def remove_abandoned() -> None:
    """Remove this user's regions whose processes have ended, and which no process holds.

    A region is locked while it is in use. The lock protects those of processes in another PID namespace, which look dead here.
    """
    with suppress(OSError):
        for file in DIRECTORY.iterdir():
            if is_abandoned(file.name):
                with suppress(OSError):
                    _remove_unlocked(file)


def is_listed(name: str) -> bool:
    """Return whether a region of this name exists.

    Args:
        name: one for which is_abandoned() was true.
    """
    return (DIRECTORY / name).exists()


def _remove_unlocked(file: Path) -> None:
    descriptor = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_uid == os.geteuid():
            file.unlink()
    finally:
        os.close(descriptor)


def _start_time(pid: int) -> int:
    """Return when the process started, in clock ticks since the host did (proc(5), field 22); -1 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return -1 if fields[0] in {"Z", "X"} else int(fields[19])
    except (OSError, IndexError, ValueError):
        return -1
