# SPDX-License-Identifier: Apache-2.0
"""Build the simulator in an xclbin's BITSTREAM section: a shared library with the interface of sim/emu/device_model.h.

hw_emu simulates the kernel's Verilated SystemVerilog with an AXI memory model; sw_emu runs the model's own C++ in a C++ shell.
A core's memory files are put into its simulator by a C++ source that includes them through the assembler, with a table that
sim/emu/memory_file.h declares.
"""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from hypersonic.firmware.kernel import registers
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.target import Target
from hypersonic.hls import verilator
from hypersonic.hls.bounded.memory import limit_bytes
from hypersonic.hls.bounded.need import Rtl, check_need
from hypersonic.hls.cache import cached, content_hash, content_sha256, is_cached
from hypersonic.hls.csim import compiled as csim
from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from hypersonic.hls.packing.codes import Codes, converters
from hypersonic.hls.project import HlsProject
from hypersonic.hls.row import Row
from hypersonic.hls.rtl.size import size_of
from hypersonic.hls.sources import source_files
from hypersonic.hls.spec import TensorSpec
from hypersonic.sim.card.library import EMU

IMAGE_NAME = "simulator.so"

#: this file, on which the content of a built simulator depends
MEMORIES = Path(__file__).resolve()

#: the C++ file that write_memories writes
SOURCE_NAME = "memories.cpp"

#: the files of sim/emu that are part of each simulator
_HW_SOURCES = ("hw_model.cpp", "axi_memory.h", "device_model.h", "memories.h", "memory_file.h")
_SW_SOURCES = ("sw_model.cpp", "wire.h", "device_model.h")

#: the modes' names in wire.h
_ROUNDING = {
    Rounding.TRN: "kTruncate",
    Rounding.RND: "kNearestUp",
    Rounding.RND_CONV: "kNearestEven",
    Rounding.TRN_ZERO: "kToZero",
    Rounding.RND_ZERO: "kNearestZero",
    Rounding.RND_INF: "kNearestAway",
    Rounding.RND_MIN_INF: "kNearestDown",
}
_OVERFLOW = {
    Overflow.WRAP: "kWrap",
    Overflow.SAT: "kSaturate",
    Overflow.SAT_ZERO: "kZero",
    Overflow.SAT_SYM: "kSymmetric",
}


#: what a kernel can hold while it moves no data: bursts that it has read ahead, and a burst to be written
_READ_AHEAD_BYTES, _BURST_BYTES = 16 * 4096, 4096


class SimulatorError(ValueError):
    """A simulator cannot be built: the target is a real card, or there is no kernel to simulate."""


def build_simulator(
    target: Target, project: HlsProject, kernel: Kernel | None = None, progress: Callable[[str], None] = lambda _: None
) -> Path:
    """Return a model's simulator from the cache, and build it first if it is not there (FACILE: 15 s and 10 s).

    Only hw_emu needs the kernel. progress receives one line before a build. Raises SimulatorError for target hw or a missing
    kernel, and ToolError when Verilator or g++ fails.
    """
    if target is Target.SW_EMU:
        return _build_software(project, progress)
    if target is not Target.HW_EMU:
        raise SimulatorError(f"target is {target}, expected sw_emu or hw_emu: a card needs a bitstream, not a simulator")
    if kernel is None:
        raise SimulatorError(f"model {project.name}: target hw_emu simulates the kernel's RTL, and there is none")
    return build_hardware_simulator(kernel, progress)


def build_hardware_simulator(kernel: Kernel, progress: Callable[[str], None] = lambda _: None) -> Path:
    """Return the hw_emu simulator of one kernel, cached by the content of everything it is built from.

    progress receives one line before a build. Raises ToolError when Verilator or g++ fails.
    """
    constants = kernel_constants(kernel)

    def build(directory: Path) -> None:
        progress(f"Verilating kernel {kernel.name}")
        (directory / "kernel_name.h").write_text(constants)
        harness = (EMU / "hw_model.cpp", write_memories(kernel.core.memories, directory))
        built = verilator.shared_library(
            directory, sources=(*kernel.lint_waivers, *kernel.sources), top=kernel.top, harness=harness,
            output=IMAGE_NAME, prefix="Vkernel", includes=(EMU, directory), size=_size(kernel),
        )  # fmt: skip
        _strip(built, directory / IMAGE_NAME)
        shutil.rmtree(directory / "obj")

    return cached("simulator", _parts(kernel), build) / IMAGE_NAME


def check_simulator(kernel: Kernel) -> None:
    """Raise ToolMemoryError if Verilator would need more memory for the kernel than its limit, and has not built it before."""
    if not is_cached("simulator", _parts(kernel)):
        check_need(_size(kernel), limit_bytes())


def _parts(kernel: Kernel) -> list[str | bytes | Path]:
    """Everything that the simulator of a kernel is built from."""
    sources = (
        *kernel.sources, *kernel.lint_waivers, *kernel.core.memories, MEMORIES, *(EMU / name for name in _HW_SOURCES)
    )  # fmt: skip
    return ["hw_emu", *verilator.build_key(), kernel_constants(kernel), kernel.top, *sources]


def _size(kernel: Kernel) -> Rtl:
    return size_of(f"kernel {kernel.name}", [kernel.core], kernel.sources, kernel=True)


def kernel_constants(kernel: Kernel) -> str:
    """Return C++ text with a kernel's constants for the harness."""
    return harness_constants(kernel.name, patience_clocks(kernel))


def patience_clocks(kernel: Kernel) -> int:
    """Return after how many clocks without a data beat a kernel counts as hung."""
    core = kernel.core
    rows = 2 + min(_READ_AHEAD_BYTES // core.inputs.row_bytes, _BURST_BYTES // core.outputs.row_bytes)
    return min(2 * (core.latency_cycles + rows * core.ii), (1 << 32) - 1)


def harness_constants(name: str, patience: int) -> str:
    """Return C++ text with the constants of a simulator: its name, and after how many clocks without a data beat it hangs."""
    return f"""#include <cstdint>
constexpr char kKernelName[] = "{name}";
constexpr uint32_t kPatienceClocks = {patience}u;
"""


def _build_software(project: HlsProject, progress: Callable[[str], None]) -> Path:
    source = _write_shell(project)

    def build(directory: Path) -> None:
        progress(f"compiling the C++ shell of {project.name}")
        _strip(csim.compile_csim(project, extra_sources=[source], output=IMAGE_NAME), directory / IMAGE_NAME)

    parts: list[str | bytes | Path] = [
        "sw_emu",
        platform.machine(),
        project.hls / "firmware",
        source,
        *_csim_sources(),
    ]
    return cached("simulator", parts, build) / IMAGE_NAME


def software_digest(project: HlsProject) -> str:
    """The digest of a model's kernel in sw_emu: SHA-256, in 64 hexadecimal digits, of its C++ project and of the shell around
    it. Its weights are part of the C++."""
    rows = [json.dumps(row.to_json(), sort_keys=True) for row in (project.inputs, project.outputs)]
    return content_sha256(["sw_emu", project.name, *rows, project.hls / "firmware", *(EMU / name for name in _SW_SOURCES)])


def _csim_sources() -> list[Path]:
    """The files that determine how a project's C++ is compiled."""
    return source_files(Path(csim.__file__).parent, "*.*")


def _write_shell(project: HlsProject) -> Path:
    """Write the model's shell: one C++ file. Its text changes with everything that it includes, because compile_csim caches by
    the text."""
    text = shell_source(project.name, project.inputs, project.outputs)

    def build(directory: Path) -> None:
        (directory / "shell.cpp").write_text(text)

    return cached("sw_shell", [text], build) / "shell.cpp"


def shell_source(kernel: str, x: Row, y: Row) -> str:
    """Return C++ text with the model's tensors and the register map for sw_model.cpp, followed by its #include."""
    constants = {name: value for name, value in vars(registers).items() if name.isupper() and isinstance(value, int)}
    lines = [
        "// Written by sim/card/simulator.py.",
        f"// Of sources {content_hash(EMU / name for name in _SW_SOURCES)}",
        "#include <cstdint>",
        f'#include "{EMU / "wire.h"}"',
        "namespace registers {",
        *(f"constexpr uint32_t {name} = {value:#x};" for name, value in constants.items()),
        "}",
        "namespace spec {",
        f'constexpr char kKernel[] = "{kernel}";',
        *_tensors("Input", x),
        *_tensors("Output", y),
        "}",
        f'#include "{EMU / "sw_model.cpp"}"',
        "",
    ]
    return "\n".join(lines)


def _tensors(role: str, row: Row) -> Iterator[str]:
    for index, tensor in enumerate(row.tensors):
        yield f"constexpr int k{role}Exponents{index}[] = {{{', '.join(str(e) for e in tensor.exponents)}}};"
        if tensor.packing:
            yield from _codes(f"k{role}Codes{index}", converters(tensor.packing, tensor.scale_exponents), tensor.fixed)
    yield f"constexpr emu::Tensor k{role}s[] = {{"
    yield from (f"    {_tensor(tensor, role, index)}," for index, tensor in enumerate(row.tensors))
    yield "};"


def _codes(name: str, converters: Iterable[Codes], fixed: FixedPoint) -> Iterator[str]:
    """The initialisers of an array of wire.h's Codes, and of their tables before it."""
    members = list[str]()
    for number, codes in enumerate(converters):
        table, field = "nullptr", codes.field
        if not codes.is_number:
            table = f"{name}Table{number}"
            yield f"constexpr int64_t {table}[] = {{{', '.join(map(str, codes.raw_table(fixed).ravel().tolist()))}}};"
        members.append(
            f"{{{codes.first_bit}, {codes.codes}, {field.bits}, {str(field.signed).lower()}, {codes.fraction}, {table}, "
            f"{field.per_code}, {field.code_bits}, {codes.select_bit}, {field.select_bits}}}"
        )
    yield f"constexpr emu::Codes {name}[] = {{{', '.join(members)}}};"


def _tensor(spec: TensorSpec, role: str, index: int) -> str:
    """The initialiser of wire.h's Tensor."""
    if spec.packing:
        count = sum(1 for _ in converters(spec.packing, spec.scale_exponents))
        members = f"{{1, 0, {{{fixed_point(FixedPoint(1, 1))}}}}}, {{{fixed_point(spec.fixed)}}}, k{role}Exponents{index}"
        return f"{{{spec.size}, {members}, k{role}Codes{index}, {count}, {spec.row_bytes}}}"
    integer = fixed_point(spec.integer if spec.element.is_integer else FixedPoint(1, 1))
    layout = f"{{{spec.element.bytes}, {spec.element.exponent_bits}, {{{integer}}}}}"
    return f"{{{spec.size}, {layout}, {{{fixed_point(spec.fixed)}}}, k{role}Exponents{index}}}"


def fixed_point(fixed: FixedPoint) -> str:
    """Return the members of wire.h's FixedPoint as a C++ initialiser, without its braces."""
    rounding, overflow = _ROUNDING[fixed.rounding], _OVERFLOW[fixed.overflow]
    return f"{fixed.width}, {fixed.fraction}, {str(fixed.signed).lower()}, emu::Rounding::{rounding}, emu::Overflow::{overflow}"


def _strip(library: Path, output: Path) -> None:
    """Remove the symbols, which are half of a Verilated library, since every xclbin contains it."""
    verilator.run(["strip", "--strip-unneeded", "-o", output, library], output.parent)


def write_memories(memories: Sequence[Path], directory: Path) -> Path:
    """Write directory/memories.cpp, which has the contents of `memories` by their base names, and return its path."""
    source = directory / SOURCE_NAME
    source.write_text("\n".join(_lines([memory.resolve() for memory in memories])) + "\n")
    return source


def _lines(memories: Sequence[Path]) -> Iterator[str]:
    yield "// Written by sim/card/simulator.py."
    yield '#include "memory_file.h"'  # and no more: other headers take seconds to compile
    for index, memory in enumerate(memories):
        file = f".incbin {_quoted(str(memory))}"
        directives = (".pushsection .rodata", f"memory_{index}:", file, f"memory_{index}_end:", ".popsection")
        yield f"asm({_quoted('; '.join(directives))});"
        yield f'extern "C" __attribute__((visibility("hidden"))) const char memory_{index}[], memory_{index}_end[];'
    entries = ", ".join(
        f"{{{_quoted(memory.name)}, memory_{index}, memory_{index}_end}}" for index, memory in enumerate(memories)
    )
    yield f"static const emu::MemoryFile kTable[] = {{{entries or '{nullptr, nullptr, nullptr}'}}};"
    yield "const emu::MemoryFile *const emu::kMemories = kTable;"
    yield f"const size_t emu::kMemoryCount = {len(memories)};"


def _quoted(text: str) -> str:
    """A string literal, of C++ or of the assembler."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
