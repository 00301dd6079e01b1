# SPDX-License-Identifier: Apache-2.0
"""The version of an XRT library, from its file, for libraries that export no function for it.

libxrt_coreutil.so.2 -> libxrt_coreutil.so.2.13.0      the file's name, everywhere
/opt/xilinx/xrt/version.json  {"BUILD_VERSION": "2.16.204", ...}      XRT's own packages, two directories up
"""

from __future__ import annotations

import json
import re
from pathlib import Path

#: major, minor, patch
Version = tuple[int, int, int]

#: the oldest XRT that has all functions with the signatures of host/xrt.py
OLDEST: Version = (2, 11, 0)

_FILE_NAME = re.compile(r"libxrt_coreutil\.so\.(\d{1,4})\.(\d{1,4})\.(\d{1,6})")
_BUILD_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})\.(\d{1,6})")
_MAX_JSON_BYTES = 1 << 16


def file_version(library: Path) -> Version | None:
    """The version of the library in this file; None when it has none, such as an emulated card's own library."""
    resolved = library.resolve()
    return _version(_FILE_NAME.fullmatch(resolved.name)) or _json_version(resolved.parent.parent / "version.json")


def text(version: Version) -> str:
    """The version as XRT writes it, such as 2.16.204."""
    return ".".join(map(str, version))


def _json_version(path: Path) -> Version | None:
    try:
        with path.open("rb") as file:
            build = json.loads(file.read(_MAX_JSON_BYTES))["BUILD_VERSION"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return _version(_BUILD_VERSION.fullmatch(build)) if isinstance(build, str) else None


def _version(match: re.Match[str] | None) -> Version | None:
    if match is None:
        return None
    major, minor, patch = map(int, match.groups())
    return major, minor, patch
