# SPDX-License-Identifier: Apache-2.0
"""Build the simulator of an AWS F2 card: the custom logic, Verilated, behind models of the shell's OCL and PCIM interfaces.

Like the simulator of a kernel, the shared library has the interface of sim/emu/device_model.h, so sim/card/direct.py drives it
too; but here one model is the whole card. The shell's rules are checked in every clock (sim/emu/pcim_shell.h).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hypersonic.firmware.f2.design import F2Design, assemble_f2_xclbin, write_f2_kernels
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.platform import Platform
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.hls import verilator
from hypersonic.hls.cache import cached
from hypersonic.hls.rtl.size import size_of
from hypersonic.sim.card.emulation import EmulatedModel, Progress
from hypersonic.sim.card.library import EMU
from hypersonic.sim.card.simulator import IMAGE_NAME, MEMORIES, harness_constants, patience_clocks, write_memories

_SOURCES = ("f2_model.cpp", "pcim_shell.h", "axi_memory.h", "device_model.h", "memories.h", "memory_file.h")


def build_f2_simulator(design: F2Design, progress: Callable[[str], None] = lambda _: None) -> Path:
    """Return the simulator's file from the cache, and build it first if it is not there.

    progress receives one line before a build. Raises ToolError when Verilator or g++ fails.
    """
    # one model stands for all kernels, and waits as long as the slowest of them
    constants = harness_constants(design.name, max(patience_clocks(kernel) for kernel, _ in design.kernels))

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


def check(kernel: Kernel) -> None:
    """Check nothing: the simulator is of all kernels together, and is checked when it is built."""


def emulate(
    models: Sequence[EmulatedModel], target: Target, platform: Platform, tools: Mapping[str, str], progress: Progress
) -> bytes:  # fmt: skip
    """Return the xclbin's bytes, with one simulator for all compute units behind the shell's interfaces (emulation.py)."""
    kernels = [(model.kernel, model.compute_units) for model in models if model.kernel]
    with tempfile.TemporaryDirectory() as scratch:
        design = write_f2_kernels(kernels, Path(scratch))
        image = build_f2_simulator(design, progress)
        return assemble_f2_xclbin(design, target, platform, image.read_bytes(), tools)


def simulators(xclbin: Xclbin) -> Mapping[str, bytes]:
    """The one simulator, as that of each kernel of an xclbin."""
    return {kernel.name: xclbin.bitstream for kernel in xclbin.kernels}
