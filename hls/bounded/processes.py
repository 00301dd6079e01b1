# SPDX-License-Identifier: Apache-2.0
"""A process and its descendants: the memory that they hold together, and how to end all of them.

A descendant is found by its parent, or by the process group of the first process where its parent has ended.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")

#: seconds that processes get to clean up after SIGINT, before they are killed
GRACE_S = 3.0

#: what cannot be given up: private memory, shared memory, and both on swap. Pages of programs and files are not counted.
_HELD = (b"RssAnon:", b"RssShmem:", b"VmSwap:")


@dataclass(frozen=True)
class Process:
    """A process in /proc.

    Attributes:
        group: its process group.
        started: clock ticks since the machine started.
    """

    pid: int
    parent: int
    group: int
    started: int


@dataclass(frozen=True)
class Held:
    """Memory of some processes together.

    Attributes:
        largest: the program that holds most of it, "" if there is none.
    """

    size_bytes: int
    largest: str
    largest_bytes: int


NOTHING = Held(0, "", 0)


def find(pid: int) -> Process | None:
    """Return a process that has not ended; None if there is none."""
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    state, parent, group, *rest = text[text.rindex(b")") + 2 :].split()
    return None if state in b"ZX" else Process(pid, int(parent), int(group), int(rest[16]))


def family(root: Process) -> list[Process]:
    """Return those of the process, its descendants and its group that have not ended; [] if another process took its pid."""
    found = [process for name in os.listdir(_PROC) if name.isdigit() and (process := find(int(name)))]  # noqa: PTH208 - speed
    if any(process.pid == root.pid and process.started != root.started for process in found):
        return []
    children: dict[int, list[int]] = {}
    for process in found:
        children.setdefault(process.parent, []).append(process.pid)
    ours = dict.fromkeys([root.pid, *(process.pid for process in found if process.group == root.pid)])
    left = list(ours)
    while left:
        more = [pid for pid in children.get(left.pop(), ()) if pid not in ours]
        ours.update(dict.fromkeys(more))
        left += more
    return [process for process in found if process.pid in ours]


def held(processes: list[Process]) -> Held:
    """Return the memory that these processes hold together."""
    sizes = {process.pid: _held(process.pid) for process in processes}
    if not any(sizes.values()):
        return NOTHING
    largest = max(sizes, key=lambda pid: sizes[pid])
    name = ""
    with suppress(OSError):
        name = (_PROC / str(largest) / "comm").read_text().strip()
    return Held(sum(sizes.values()), name, sizes[largest])


def _held(pid: int) -> int:
    try:
        lines = (_PROC / str(pid) / "status").read_bytes().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(_HELD))


def end(root: Process) -> None:
    """Ask a process and its descendants to end, as Ctrl-C does, and kill after GRACE_S seconds what has not ended."""
    try:
        _send(family(root), signal.SIGINT)
        until = time.monotonic() + GRACE_S
        while family(root) and time.monotonic() < until:
            time.sleep(0.02)
    finally:  # a second Ctrl-C does not wait
        kill(root)


def end_children() -> None:
    """End the children of this process, and theirs, as `end` does."""
    if own := find(os.getpid()):
        for child in family(own):
            if child.parent == own.pid:
                end(child)


def kill(root: Process) -> None:
    """Kill a process and its descendants. All are stopped first, so that none starts another one meanwhile."""
    stopped: set[Process] = set()
    while more := set(family(root)) - stopped:
        _send(more, signal.SIGSTOP)
        stopped |= more
    _send(stopped, signal.SIGKILL)


def _send(processes: set[Process] | list[Process], what: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, what)
