# SPDX-License-Identifier: Apache-2.0
"""Which XRT library drives a target: the installed one for a card, the emulated card's own for the emulation targets.

$HYPERSONIC_XRT_LIBRARY overrides both: a path, or a name the dynamic loader finds.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable
from pathlib import Path

from hypersonic.firmware.target import Target
from hypersonic.host.errors import LibraryNotFoundError
from hypersonic.host.xrt import Library

_LOG = logging.getLogger(__name__)
OVERRIDE = "HYPERSONIC_XRT_LIBRARY"
#: found through the dynamic loader where XRT is a package of the system
SONAME = "libxrt_coreutil.so.2"
#: exports the same C functions over a simulated kernel; imported only when an emulation target asks for it
EMULATION = "hypersonic.sim.library"


def load_library(target: Target) -> Library:
    """The library for this target. Raises LibraryNotFoundError, which says what to install or set."""
    return Library(library_path(target))


def library_path(target: Target, progress: Callable[[str], None] = _LOG.info) -> str:
    """Its path or soname. For the emulation targets this builds the emulated card when it is not built yet.

    progress: told before something is compiled; `hypersonic build` does that, so that a server seldom has to.
    """
    if override := os.environ.get(OVERRIDE):
        return override
    return _emulation_path(target, progress) if target.emulated else _installed_path()


def _emulation_path(target: Target, progress: Callable[[str], None]) -> str:
    try:
        return str(importlib.import_module(EMULATION).library_path(progress=progress))
    except (ImportError, OSError, RuntimeError) as error:
        raise LibraryNotFoundError(f"the emulated card for target {target} cannot be made: {error}") from error


def _installed_path() -> str:
    """XRT's setup.sh sets XILINX_XRT; a Debian package needs neither that nor a path."""
    roots = [Path(root) for root in (os.environ.get("XILINX_XRT"), "/opt/xilinx/xrt") if root]
    candidates = (root / "lib" / name for root in roots for name in (SONAME, "libxrt_coreutil.so"))
    return next((str(path) for path in candidates if path.is_file()), SONAME)
