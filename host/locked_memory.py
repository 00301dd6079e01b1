# SPDX-License-Identifier: Apache-2.0
"""The limit of locked memory (RLIMIT_MEMLOCK): the drivers of cards pin the host's side of buffer objects in memory."""

from __future__ import annotations

import re
import resource
from pathlib import Path

STATUS = Path("/proc/self/status")
#: CAP_IPC_LOCK of linux/capability.h, with which the limit does not hold
_IPC_LOCK = 1 << 14


def locked_memory_warning(needed_bytes: int) -> str:
    """Return what is wrong with the limit of locked memory and what to do; "" if so many bytes may be locked.

    The process's soft limit is raised to the hard one, which every program may do.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (hard, hard))
    if hard == resource.RLIM_INFINITY or needed_bytes <= hard or _has_no_limit():
        return ""
    return (
        f"the buffers on cards take {needed_bytes} bytes of the host's memory, which the cards' drivers lock, but this "
        f"process may lock {hard} bytes (RLIMIT_MEMLOCK): raise the limit with LimitMEMLOCK= of systemd, --ulimit memlock=-1 "
        "of docker or the container runtime's setting in Kubernetes, or use fewer or smaller slots"
    )


def _has_no_limit() -> bool:
    effective = re.search(r"^CapEff:\s*([0-9a-f]+)$", STATUS.read_text(), re.MULTILINE)
    return effective is not None and bool(int(effective[1], 16) & _IPC_LOCK)
