# SPDX-License-Identifier: Apache-2.0
"""The emulated card's XRT library: compiled from sim/emu when it is first needed, and then found by its content hash.

It exports the functions of libxrt_coreutil that host/xrt.py binds. It reads these environment variables::

    HYPERSONIC_EMU_DEVICES   cards in this machine (default 4)
    HYPERSONIC_EMU_MEMORY    "ideal" or "latency=60,outstanding=64,stall=0,seed=1" (clocks, bursts, per cent), hw_emu only
    HYPERSONIC_EMU_HANG      "facile_1:3": compute unit facile_1 completes neither its 3rd run nor any later one, until its
                             card is reset; "facile_1@1:3": the same on card 1 only
    HYPERSONIC_EMU_WRONG     "facile_1:3": one bit is wrong in the answers of facile_1's 3rd run and of all later ones;
                             "facile_1/queued:1": the same for its runs that begin while another is in flight; "memory:5": for
                             the 5th copy to a card and all later ones
    HYPERSONIC_EMU_LOAD_MS   time in ms in which a card replaces an xclbin by another one (default 2000, assumed)
    HYPERSONIC_EMU_PCIE_MB_S rate of each direction of a card's PCIe link in 10^6 bytes/s (default 0: no limit)
    HYPERSONIC_EMU_PCIE_TRANSFER_MB_S
                             rate of one transfer in it (default 0: that of the direction)
    HYPERSONIC_EMU_CARDS     a directory, in which processes share cards (sim/emu/processes.h). While it has a file
                             1.unplugged, card 1 is off the bus; each byte appended to a file 1.resets resets card 1
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from pathlib import Path

from hypersonic.hls import verilator
from hypersonic.hls.cache import cached, is_cached

#: C++ of the emulated card and of the simulators
EMU = Path(__file__).resolve().parents[1] / "emu"
LIBRARY_NAME = "libxrt_emu.so"

_SOURCES = (
    "xrt_emu.cpp", "objects.cpp", "card.cpp", "processes.cpp", "options.cpp", "worker.cpp", "compute_unit.cpp", "banks.cpp",
    "simulator.cpp", "images.cpp", "memory.cpp", "metadata.cpp", "axlf.cpp",
)  # fmt: skip
_FLAGS = ("-std=c++20", "-O2", "-g1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fvisibility=hidden", "-pthread")


def library_path(flags: Sequence[str] = (), progress: Callable[[str], None] = lambda _: None) -> Path:
    """Return the library's path, and compile it first if it is not in the cache (5 to 20 s).

    flags are further options for g++, such as a sanitizer's. progress receives one line before a compilation. Raises
    ToolError when g++ is missing or fails. Several processes may call this at once.
    """

    def build(directory: Path) -> None:
        verilator.require("g++")
        progress("compiling the emulated card, once for this version (5 to 20 s)")
        whole = directory / "whole.cpp"  # in one piece: most of the time goes into headers, which all of the sources include
        whole.write_text("".join(f'#include "{EMU / name}"\n' for name in _SOURCES))
        exports = f"-Wl,--version-script={EMU / 'exports.map'}"
        link = ("-shared", "-Wl,-z,defs", exports, "-o", directory / LIBRARY_NAME)
        verilator.run(["g++", *_FLAGS, *flags, whole, *link, "-ldl"], directory)

    return cached("xrt_emu", _parts(flags), build) / LIBRARY_NAME


def is_compiled() -> bool:
    """Return whether library_path() would find the library in the cache."""
    return is_cached("xrt_emu", _parts(()))


def _parts(flags: Sequence[str]) -> list[str | bytes | Path]:
    return [platform.machine(), *_FLAGS, *flags, EMU]
