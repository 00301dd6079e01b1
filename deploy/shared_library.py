# SPDX-License-Identifier: Apache-2.0
"""Exits with 0 if the shared library of this Python exists, as cocotb needs it; prints its name and exits with 1 if not.

Debian's python3 has none of its own: the package python3-dev brings it. The places are those in which find_libpython, which
cocotb uses, looks for it.
"""

import ctypes
import sys
import sysconfig
from pathlib import Path

NAME = f"libpython{sys.version_info.major}.{sys.version_info.minor}.so"


def has_shared_library() -> bool:
    """Return whether the library is in one of this Python's directories, or is found by the dynamic loader."""
    places = {sysconfig.get_config_var(name) for name in ("LIBDIR", "LIBPL")} | {str(Path(sys.base_prefix, "lib"))}
    if any(place and any(Path(place).glob(f"{NAME}*")) for place in places):
        return True
    return any(is_loadable(name) for name in (NAME, f"{NAME}.1.0"))


def is_loadable(name: str) -> bool:
    """Return whether the dynamic loader finds a library of this name."""
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    if not has_shared_library():
        sys.stdout.write(f"{NAME}\n")
        sys.exit(1)
