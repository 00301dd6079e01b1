# SPDX-License-Identifier: Apache-2.0
"""The kernel's register map, from which the RTL constants and docs/registers.md are generated.

Offsets 0x00 to 0x0C are those that XRT expects of an `ap_ctrl_chain` kernel (UG1393; XRT, cu_hls.c). The arguments begin at
0x10, the project's own read-only status registers at 0x40. `python -m hypersonic.firmware.kernel.registers` rewrites both
files; a test checks that they are current.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

#: bytes of the address range of s_axi_control
ADDRESS_RANGE = 0x1000

CONTROL = 0x00
GIE = 0x04
IER = 0x08
ISR = 0x0C
X = 0x10
Y = 0x1C
ROWS = 0x28
W = 0x30
BUSY_CYCLES = 0x40
RUNS = 0x48
RUN_CYCLES = 0x4C
AXI_ERROR = 0x50
VERSION = 0x54
ROW_IN_BYTES = 0x58
ROW_OUT_BYTES = 0x5C
STARVED_CYCLES = 0x60
BLOCKED_CYCLES = 0x64
READ_ADDRESS_CYCLES = 0x68
WRITE_ADDRESS_CYCLES = 0x6C
WRITE_DATA_CYCLES = 0x70
CORE_CYCLES = 0x74
WEIGHTS_BEATS = 0x78

AP_START = 1 << 0
AP_DONE = 1 << 1
AP_IDLE = 1 << 2
AP_READY = 1 << 3
AP_CONTINUE = 1 << 4

#: the bits of AXI_ERROR
READ_ERROR = 1 << 0
WRITE_ERROR = 1 << 1

#: the value of VERSION: major << 16 | minor of this map
MAP_VERSION = 0x0001_0002

#: runs that a kernel accepts before the first of them must be acknowledged by ap_continue; a power of two
MAX_RUNS = 8


@dataclass(frozen=True)
class Bit:
    """One bit of a register."""

    bit: int
    name: str
    text: str


@dataclass(frozen=True)
class Register:
    """A register of 32-bit words: usually one, two for a 64-bit value (low word first).

    Attributes:
        text: its meaning, as documented.
    """

    offset: int  # bytes
    name: str
    access: str  # R or RW
    text: str
    words: int = 1
    bits: tuple[Bit, ...] = ()


REGISTERS = (
    Register(
        CONTROL, "CONTROL", "RW", "block control, ap_ctrl_chain; reads 0x4 after reset",
        bits=(
            Bit(0, "ap_start", "write 1 to start a run; reads 1 until the run is accepted (its arguments are latched then)"),
            Bit(1, "ap_done", "a run is done and not yet acknowledged; stays set until ap_continue"),
            Bit(2, "ap_idle", "no run is waiting or in flight"),
            Bit(3, "ap_ready", "a run was accepted since the last read; cleared by reading"),
            Bit(4, "ap_continue", "write 1 to acknowledge one done run; reads 0"),
            Bit(7, "auto_restart", "not supported: writes are ignored, reads 0"),
        ),
    ),
    Register(GIE, "GIE", "RW", "global interrupt enable", bits=(Bit(0, "enable", "the interrupt line follows ISR"),)),
    Register(
        IER, "IER", "RW", "interrupt enable",
        bits=(Bit(0, "done", "ap_done sets ISR"), Bit(1, "ready", "accepting a run sets ISR")),
    ),
    Register(
        ISR, "ISR", "RW", "interrupt status; writing 1 toggles a bit: write back the value that was read",
        bits=(Bit(0, "done", "set while a done run waits for ap_continue"), Bit(1, "ready", "a run was accepted")),
    ),
    Register(X, "X", "RW", "address of the first input row, a multiple of 64", words=2),
    Register(Y, "Y", "RW", "address of the first output row, a multiple of 64", words=2),
    Register(ROWS, "ROWS", "RW", "rows of the run (not beats: a row may be several); a run of 0 rows is done at once"),
    Register(
        W, "W", "RW",
        "address of the weights, a multiple of 64; the core loads the weights again in a run whose address differs from the "
        "previous run's. Reads 0 and ignores writes where WEIGHTS_BEATS is 0", words=2,
    ),
    Register(
        BUSY_CYCLES, "BUSY_CYCLES", "R", "clocks with a run in flight since reset; reading the low word latches the high one",
        words=2,
    ),
    Register(RUNS, "RUNS", "R", "runs done since reset"),
    Register(RUN_CYCLES, "RUN_CYCLES", "R", "clocks of the run that was done last, from its acceptance until it was done"),
    Register(
        AXI_ERROR, "AXI_ERROR", "R", "memory errors since reset",
        bits=(Bit(0, "read", "an RRESP was not OKAY"), Bit(1, "write", "a BRESP was not OKAY")),
    ),
    Register(VERSION, "VERSION", "R", f"version of this map, major in bits 31:16 and minor in bits 15:0; 0x{MAP_VERSION:08x}"),
    Register(ROW_IN_BYTES, "ROW_IN_BYTES", "R", "bytes of an input row"),
    Register(ROW_OUT_BYTES, "ROW_OUT_BYTES", "R", "bytes of an output row"),
    Register(
        STARVED_CYCLES, "STARVED_CYCLES", "R",
        "clocks since reset in which a row, or the next beat of a row of several beats, was due and not all its bytes had been "
        "read from memory",
    ),
    Register(
        BLOCKED_CYCLES, "BLOCKED_CYCLES", "R",
        "clocks since reset in which a row, or a beat of one, waited because the core, or the logic after it, was not ready",
    ),
    Register(READ_ADDRESS_CYCLES, "READ_ADDRESS_CYCLES", "R", "clocks since reset in which memory kept a read address waiting"),
    Register(
        WRITE_ADDRESS_CYCLES, "WRITE_ADDRESS_CYCLES", "R",
        "clocks since reset in which memory kept a write address waiting, or no further address could be sent until memory had "
        "responded to an earlier write",
    ),
    Register(
        WRITE_DATA_CYCLES, "WRITE_DATA_CYCLES", "R",
        "clocks since reset in which memory kept a beat of results waiting whose address it had taken",
    ),
    Register(
        CORE_CYCLES, "CORE_CYCLES", "R",
        "the part of BLOCKED_CYCLES in which none of the last four beats of results had to wait at the core's output",
    ),
    Register(
        WEIGHTS_BEATS, "WEIGHTS_BEATS", "R", "size of the weights at W in beats of 64 bytes; 0: all weights are in the kernel"
    ),
)  # fmt: skip


def systemverilog() -> str:
    """The text of registers.svh: the package `registers` with the word addresses (offset / 4) for kernel_control.sv."""
    names = [
        (f"{register.name}{suffix}", register.offset + 4 * word)
        for register in REGISTERS
        for word, suffix in enumerate(("_LOW", "_HIGH") if register.words == 2 else ("",))
    ]
    width = max(len(name) for name, _ in names)
    lines = [f"  localparam logic [9:0] {name:<{width}} = 10'h{offset // 4:03x};  // 0x{offset:02x}" for name, offset in names]
    return "\n".join(
        [
            "// SPDX-License-Identifier: Apache-2.0",
            "//",
            "// Word addresses of the kernel's registers. Written by firmware/kernel/registers.py: change it there.",
            "`ifndef REGISTERS_SVH",
            "`define REGISTERS_SVH",
            "",
            "package registers;",
            *lines,
            f"  localparam logic [31:0] MAP_VERSION = 32'h{MAP_VERSION:08x};",
            "endpackage",
            "",
            "`endif",
            "",
        ]
    )


def markdown() -> str:
    """The text of docs/registers.md."""
    lines = [
        "# The kernel's registers",
        "",
        "This file is generated by `python -m hypersonic.firmware.kernel.registers` from `firmware/kernel/registers.py`.",
        "Offsets are in bytes on `s_axi_control`. Words have 32 bits, and the low word of a 64-bit value comes first. All",
        "other offsets read 0 and ignore writes.",
        "",
        "| offset | register | access | bit | meaning |",
        "|---|---|---|---|---|",
    ]
    for register in REGISTERS:
        end = register.offset + 4 * register.words - 1
        lines.append(f"| 0x{register.offset:02x}-0x{end:02x} | {register.name} | {register.access} | | {register.text} |")
        lines += [f"| | | | {bit.bit} {bit.name} | {bit.text} |" for bit in register.bits]
    return "\n".join([*lines, ""])


def products(root: Path) -> dict[Path, str]:
    """The text of each file that is generated from this map.

    Args:
        root: the repository's.
    """
    return {root / "firmware" / "rtl" / "registers.svh": systemverilog(), root / "docs" / "registers.md": markdown()}


def main() -> None:
    """Write the generated files into this repository."""
    for file, text in products(Path(__file__).resolve().parents[2]).items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


if __name__ == "__main__":
    main()
