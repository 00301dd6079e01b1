# SPDX-License-Identifier: Apache-2.0
"""Build the simulator of an AWS F2 card: the custom logic, Verilated, behind models of the shell's OCL and PCIM interfaces.

Like the simulator of a kernel, the shared library has the interface of sim/emu/device_model.h, so sim/direct.py drives it
too; but here one model is the whole card. The shell's rules are checked in every clock (sim/emu/pcim_shell.h).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from hypersonic.firmware.f2.design import F2Design
from hypersonic.hls import verilator
from hypersonic.hls.cache import cached
from hypersonic.hls.rtl.size import size_of
from hypersonic.sim.library import EMU
from hypersonic.sim.memories import MEMORIES, write_memories
from hypersonic.sim.simulator import IMAGE_NAME, harness_constants, patience_clocks

_SOURCES = ("f2_model.cpp", "pcim_shell.h", "axi_memory.h", "device_model.h", "memories.h", "memory_file.h")


def build_f2_simulator(design: F2Design, progress: Callable[[str], None] = lambda _: None) -> Path:
    """Return the simulator's file from the cache, and build it first if it is not there.

    progress receives one line before a build. Raises ToolError when Verilator or g++ fails.
    """
    constants = _constants(design)

    def build(directory: Path) -> None:
        listed = ", ".join(f"{units} x {kernel.name}" for kernel, units in design.kernels)
        progress(f"Verilating {listed} behind the F2 shell")
        (directory / "kernel_name.h").write_text(constants)
        harness = (EMU / "f2_model.cpp", write_memories(design.memories, directory))
        built = verilator.shared_library(
            directory, sources=(*design.lint_waivers, *design.sources), top=design.top, harness=harness,
            output=IMAGE_NAME, prefix="Vf2", includes=(EMU, directory),
            size=size_of(design.name, [kernel.core for kernel, _ in design.kernels], design.sources, kernel=True),
        )  # fmt: skip
        verilator.run(["strip", "--strip-unneeded", "-o", directory / IMAGE_NAME, built], directory)
        shutil.rmtree(directory / "obj")

    sources = (*design.sources, *design.lint_waivers, *design.memories, MEMORIES, *(EMU / name for name in _SOURCES))
    return cached("f2_simulator", [*verilator.build_key(), constants, *sources], build) / IMAGE_NAME


def _constants(design: F2Design) -> str:
    """The harness' constants: one model stands for all kernels, and waits as long as the slowest of them."""
    return harness_constants(design.name, max(patience_clocks(kernel) for kernel, _ in design.kernels))
