# SPDX-License-Identifier: Apache-2.0
"""The memory that is available on this machine, and the memory limit of a tool.

Available is what the kernel can give without swapping: MemAvailable, or less where a control group (a container, a Slurm job, a
systemd unit) has a limit. Swap is not counted: a compiler that swaps stops the machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

#: the environment variable with the limit, in the syntax of `--memory`
VARIABLE = "HYPERSONIC_MEMORY"

#: The default limit. A fifth is left for other programs, which may grow too, and for what a tool allocates between two
#: measurements.
DEFAULT = "80%"

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_PROC, _CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")


class MemoryOptionError(ValueError):
    """A memory limit cannot be parsed. The message says where it was given, and what is expected."""


def limit_bytes(text: str = "") -> int | None:
    """Return the limit in bytes for a tool that starts now; None where the system does not say what is available.

    Args:
        text: a size such as 8G, or a share of what is available now such as 80%; "" takes the variable HYPERSONIC_MEMORY, or
            DEFAULT if it is not set.

    Raises:
        MemoryOptionError: For any other text.
    """
    wish = text or os.environ.get(VARIABLE, "") or DEFAULT
    size = parse_limit(wish)
    if isinstance(size, int):
        return size
    available = available_bytes()
    return None if available is None else int(size * available)


def parse_limit(text: str) -> int | float:
    """Return the bytes of a text such as 8G (of 2**30), or a share above 0 and up to 1 for 80%. Raises MemoryOptionError."""
    if (share := re.fullmatch(r"(\d{1,3})%", text)) and 1 <= int(share[1]) <= 100:
        return int(share[1]) / 100
    size = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
    if size and (count := int(float(size[1]) * _UNITS[size[2].upper()])) > 0:
        return count
    raise MemoryOptionError(
        f"the limit of memory ({VARIABLE} or --memory) is {text!r}, expected a size such as 8G or 500M, or a share of what is "
        "available such as 80%"
    )


def available_bytes(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> int | None:
    """Return the memory that this process and its children can still take; None where the system does not say.

    The limits of a control group and of all its parents apply.

    Args:
        proc, cgroups: the mounted file systems.
    """
    rooms = [*_machine(proc), *_groups(proc, cgroups)]
    return max(min(rooms), 0) if rooms else None


def _machine(proc: Path) -> Iterator[int]:
    with suppress(OSError):
        if found := re.search(r"^MemAvailable:\s+(\d+) kB$", (proc / "meminfo").read_text(), re.MULTILINE):
            yield int(found[1]) << 10


def _groups(proc: Path, cgroups: Path) -> Iterator[int]:
    """Yield the memory that is left in each memory control group of this process, for either version of control groups."""
    with suppress(OSError):
        for line in (proc / "self/cgroup").read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0":  # version 2; in `unified` where version 1 is mounted too
                for root in (cgroups, cgroups / "unified"):
                    yield from _above(root, path, ("memory.max", "memory.high"), "memory.current", "")
            elif "memory" in controllers.split(","):
                yield from _above(cgroups / "memory", path, ("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_")


def _above(root: Path, path: str, limits: tuple[str, ...], usage: str, prefix: str) -> Iterator[int]:
    """Yield the memory that is left in a group and in its parents. A container may see its own group as the root, under an
    outside path."""
    group = root / path.lstrip("/")
    for place in (group, *group.parents):
        if not place.is_relative_to(root):
            return
        for limit in limits:
            with suppress(OSError, ValueError):  # missing, or the word max
                yield int((place / limit).read_text()) - int((place / usage).read_text()) + _cached(place, prefix)


def _cached(place: Path, prefix: str) -> int:
    """Bytes of files in memory, which the kernel gives up when the group needs them."""
    with suppress(OSError):
        stat = dict(line.split(maxsplit=1) for line in (place / "memory.stat").read_text().splitlines() if " " in line)
        return sum(int(stat.get(f"{prefix}{kind}_file", 0)) for kind in ("active", "inactive"))
    return 0


def in_words(size: int) -> str:
    """Return a size for people: 1.5 GB, 300 MB (of 2**30 and 2**20 bytes)."""
    return f"{size / (1 << 30):.1f} GB" if size >= 1 << 30 else f"{max(round(size / (1 << 20)), 1)} MB"
