# SPDX-License-Identifier: Apache-2.0
"""The XRT library for a target: the installed one for a card, the emulated card's own for the emulation targets.

$HYPERSONIC_XRT_LIBRARY overrides both: it is a path, or a name that the dynamic loader finds.
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
#: the dynamic loader finds this name where XRT is a package of the system
SONAME = "libxrt_coreutil.so.2"
#: the module whose library has the same C functions for a simulated kernel; imported only for an emulation target
EMULATION = "hypersonic.sim.card.library"


def load_library(target: Target) -> Library:
    """Load the library for this target. Raises LibraryNotFoundError, which says what to install or set."""
    return Library(library_path(target))


def library_path(target: Target, progress: Callable[[str], None] = _LOG.info) -> str:
    """The path or soname of the library. For the emulation targets, the emulated card is compiled if it has not been yet.

    Args:
        progress: called before a compilation. `hypersonic build` compiles it too, so that a server rarely has to.

    Raises:
        LibraryNotFoundError: When the emulated card cannot be built.
    """
    if override := os.environ.get(OVERRIDE):
        return override
    return _emulation_path(target, progress) if target.emulated else _installed_path()


def _emulation_path(target: Target, progress: Callable[[str], None]) -> str:
    try:
        return str(importlib.import_module(EMULATION).library_path(progress=progress))
    except (ImportError, OSError, RuntimeError) as error:
        raise LibraryNotFoundError(f"the emulated card for target {target} cannot be built: {error}") from error


def _installed_path() -> str:
    """The library of the installed XRT: below $XILINX_XRT, which XRT's setup.sh sets, or /opt/xilinx/xrt, otherwise its soname,
    which is enough for a Debian package."""
    roots = [Path(root) for root in (os.environ.get("XILINX_XRT"), "/opt/xilinx/xrt") if root]
    candidates = (root / "lib" / name for root in roots for name in (SONAME, "libxrt_coreutil.so"))
    return next((str(path) for path in candidates if path.is_file()), SONAME)
