# SPDX-License-Identifier: Apache-2.0
"""Checks that Vivado reads the files of a core's $readmemh, which it finds by base name among the project's memory files.

For a file that it does not find, Vivado assumes zeros, with no more than a critical warning (Synth 8-4445). Every file is
therefore checked before the long step, and that warning fails the build. Sources: UG901 (format: one word per line), UG835
(read_mem, file_type).
"""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

from hypersonic.firmware.toolchains.errors import StepError, VendorError
from hypersonic.hls.core import Core

#: Vivado's message when it assumes zeros in place of a file
UNREAD = re.compile(rb"could not open \$readmem\w* data file '([^'\n]{0,200})'")

_FILE = re.compile(r'_?(?:FILE|WEIGHTS|BIAS)\("([^"\n]+)"\)')
_NAME = re.compile(r"[\w.-]+")

_LOOKED_AT, _LOG_BYTES = 10_000, 1 << 26


def check_memories(core: Core) -> None:
    """Raises VendorError for a memory file that is missing, is empty or has a name that the tools do not accept, and for a file
    that the core's top reads but that is not among its memories."""
    for file in core.memories:
        if not _NAME.fullmatch(file.name):
            raise VendorError(f"memory file {file.name!r} of core {core.name}: expected letters, digits and . _ - only")
        if not file.is_file() or not file.stat().st_size:
            raise VendorError(f"memory file {file} of core {core.name} is missing or empty; build the model again")
    known = {file.name for file in core.memories}
    for source in core.sources:
        unknown = sorted(set(_FILE.findall(source.read_text())) - known) if source.stem == core.top else []
        if unknown:
            raise VendorError(
                f"core {core.name} reads {unknown[0]}, which is none of its {len(known)} memory files; build the model again"
            )


def check_read(logs: Path) -> None:
    """Search Vivado's logs below `logs`. Raises StepError for a memory that Vivado filled with zeros."""
    for log in islice(logs.rglob("*.log"), _LOOKED_AT):
        with log.open("rb") as file:
            match = UNREAD.search(file.read(_LOG_BYTES))
        if match:
            name = match[1].decode(errors="replace")
            raise StepError(
                f"Vivado did not find memory file {name!r} and used zeros in its place, according to {log}; "
                "remove the build's directory and build again"
            )
