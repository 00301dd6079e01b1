# SPDX-License-Identifier: Apache-2.0
"""Precompiles the headers of ap_fixed and of the C++ library that every model's C++ includes.

Reading them takes about two seconds of the five to twelve in which g++ compiles a small model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hypersonic.hls.cache import cached
from hypersonic.hls.verilator import run

_INCLUDED = (
    '"ap_fixed.h"', '"ap_int.h"', '"hls_stream.h"', "<pthread.h>", "<cstddef>", "<cstdint>", "<exception>", "<memory>",
    "<mutex>", "<tuple>", "<type_traits>", "<utility>", "<vector>",
)  # fmt: skip
_TEXT = "".join(f"#include {name}\n" for name in _INCLUDED)

#: g++ frees memory only above this many kB; the default is at most 128 MB, which the headers alone reach
_MEMORY = ("--param", "ggc-min-heapsize=524288")


def precompiled(flags: Sequence[str], types: Path) -> list[str]:
    """Return g++'s options with which a compilation reads the headers precompiled; they are precompiled first, once.

    The compilation must name it too, with -I: g++ reads the headers themselves if the flags differ.

    Args:
        flags: those of the compilation that say what code g++ generates; -D may be left out.
        types: the directory with ap_types' headers; without it nothing is precompiled.

    Raises:
        ToolError: If g++ fails.
    """
    if not types.is_dir():
        return []

    def build(directory: Path) -> None:
        header = directory / "headers.h"
        header.write_text(_TEXT)
        run(["g++", *flags, f"-I{types.resolve()}", "-x", "c++-header", header, "-o", f"{header}.gch"], directory)

    return [*_MEMORY, "-include", str(cached("csim_headers", [*flags, _TEXT, types], build) / "headers.h")]
