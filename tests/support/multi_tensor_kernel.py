# SPDX-License-Identifier: Apache-2.0
"""A kernel with several inputs and outputs around the bench core, and its simulators for both emulation targets."""

from __future__ import annotations

from pathlib import Path

from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.firmware.target import Target
from hypersonic.hls import verilator
from hypersonic.hls.cache import cached
from hypersonic.hls.row import Row
from hypersonic.sim.bench_core import bench_core_csim, write_bench_core
from hypersonic.sim.card.simulator import build_hardware_simulator, shell_source

NAME = "several"
_COMPILE = ("g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden")


def software(x: Row, y: Row) -> Path:
    """Build the simulator for sw_emu: the C++ shell around the bench core in C++."""
    texts = {"shell.cpp": shell_source(NAME, x, y), "csim.cpp": bench_core_csim(x, y)}

    def build(directory: Path) -> None:
        for name, text in texts.items():
            (directory / name).write_text(text)
        verilator.run([*_COMPILE, "-fno-gnu-unique", *texts, "-o", "several.so"], directory)

    return cached("test_several", [*_COMPILE, *texts.values()], build) / "several.so"


def simulator(target: Target, x: Row, y: Row, directory: Path) -> Path:
    """Build the simulator for sw_emu or hw_emu."""
    if target is Target.SW_EMU:
        return software(x, y)
    return build_hardware_simulator(write_kernel(write_bench_core(x, y, directory, name=NAME), directory))
