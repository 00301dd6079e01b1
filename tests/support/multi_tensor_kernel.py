# SPDX-License-Identifier: Apache-2.0
"""A kernel with several inputs and outputs around the bench core, and its simulators for both emulation targets."""

from __future__ import annotations

from pathlib import Path

from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.firmware.target import Target
from hypersonic.hls import verilator
from hypersonic.hls.cache import cached
from hypersonic.hls.row import Row
from hypersonic.sim.bench_core import write_bench_core
from hypersonic.sim.card.simulator import build_hardware_simulator, shell_source

NAME = "several"
_COMPILE = ("g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden")


def software(x: Row, y: Row) -> Path:
    """Build the simulator for sw_emu: the C++ shell around the bench core in C++."""
    texts = {"shell.cpp": shell_source(NAME, x, y), "csim.cpp": _core_in_cpp(x, y)}

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


def _core_in_cpp(x: Row, y: Row) -> str:
    """The function of the bench core as C++: the hypersonic_csim that sim/emu/sw_model.cpp calls."""
    fixed = [tensor.fixed for tensor in y.tensors for _ in range(tensor.size)]
    types = ", ".join(f"{{{each.width}, {str(each.signed).lower()}}}" for each in fixed)
    return f"""// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

namespace {{
struct Type {{
    int width;
    bool is_signed;
}};
constexpr Type kTypes[] = {{{types}}};
}}  // namespace

extern "C" int hypersonic_csim(const int64_t *x_raw, int64_t *y_raw, size_t rows) {{
    for (size_t row = 0; row < rows; ++row, x_raw += {x.size}, y_raw += {y.size}) {{
        uint64_t sum = 0;
        for (uint64_t i = 0; i < {x.size}; ++i) sum += static_cast<uint64_t>(x_raw[i]) * (i + 1);
        for (uint64_t j = 0; j < {y.size}; ++j) {{
            const uint64_t low = (sum + j * static_cast<uint64_t>(x_raw[0])) << (64 - kTypes[j].width);
            y_raw[j] = kTypes[j].is_signed ? static_cast<int64_t>(low) >> (64 - kTypes[j].width)
                                           : static_cast<int64_t>(low >> (64 - kTypes[j].width));
        }}
    }}
    return 0;
}}
"""
