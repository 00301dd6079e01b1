# SPDX-License-Identifier: Apache-2.0
"""What lies where in BAR0 of an AWS F2 card with our custom logic on it; the one source of the RTL constants and the document.

Compute unit n has the 64 KiB from n * 0x10000 on, its registers (firmware/kernel/registers.py) in the first 4 KiB of them. The
last 64 KiB of the window are the identity block. `python -m hypersonic.firmware.f2.registers` writes both files anew.
"""

from __future__ import annotations

from pathlib import Path

from hypersonic.firmware.kernel.registers import Register

#: bytes of BAR0: the shell's OCL window
WINDOW_BYTES = 1 << 26

#: from one compute unit's registers to the next one's
UNIT_STRIDE = 0x1_0000

#: compute units the top takes: the shell has as many interrupts
MAX_UNITS = 16

#: where the identity block is
IDENTITY = 0x3FF_0000

MAGIC = 0x00
VERSION = 0x04
COMPUTE_UNITS = 0x08
UUID = 0x10

#: what MAGIC reads: "HYPR" as bytes in memory
MAGIC_VALUE = int.from_bytes(b"HYPR", "little")

#: what VERSION reads: major << 16 | minor of this map
MAP_VERSION = 0x0001_0000

REGISTERS = (
    Register(MAGIC, "MAGIC", "R", f"0x{MAGIC_VALUE:08x}, the text HYPR: our custom logic is on the card"),
    Register(VERSION, "VERSION", "R", f"version of this map, major << 16 | minor; 0x{MAP_VERSION:08x}"),
    Register(COMPUTE_UNITS, "COMPUTE_UNITS", "R", f"compute units on the card, 1 to {MAX_UNITS}"),
    Register(UUID, "UUID", "R", "which build it is: the uuid of manifest.json, first hexadecimal digits first", words=4),
)


def uuid_words(uuid: str) -> tuple[int, int, int, int]:
    """The four words of UUID for 32 hexadecimal digits, in the order of their offsets."""
    a, b, c, d = (int(uuid[8 * word : 8 * word + 8], 16) for word in range(4))
    return a, b, c, d


def systemverilog() -> str:
    """The package `f2_registers`: word addresses within the identity block (offset / 4) and constants of ocl_decode.sv."""
    names = [(register.name, register.offset) for register in REGISTERS[:3]]
    names += [(f"UUID_{word}", UUID + 4 * word) for word in range(4)]
    lines = [f"  localparam logic [9:0] {name:<13} = 10'h{offset // 4:03x};  // 0x{offset:02x}" for name, offset in names]
    return "\n".join(
        [
            "// SPDX-License-Identifier: Apache-2.0",
            "//",
            "// The identity block of an F2 card. Written by firmware/f2/registers.py: change it there.",
            "`ifndef F2_REGISTERS_SVH",
            "`define F2_REGISTERS_SVH",
            "",
            "package f2_registers;",
            *lines,
            f"  localparam logic [9:0] IDENTITY = 10'h{IDENTITY >> 16:03x};  // in units of 64 KiB",
            f"  localparam logic [31:0] MAGIC_VALUE = 32'h{MAGIC_VALUE:08x};",
            f"  localparam logic [31:0] MAP_VERSION = 32'h{MAP_VERSION:08x};",
            f"  localparam int MAX_UNITS = {MAX_UNITS};",
            "endpackage",
            "",
            "`endif",
            "",
        ]
    )


def markdown() -> str:
    """The table of docs/f2-registers.md."""
    lines = [
        "# BAR0 of an F2 card",
        "",
        "Written by `python -m hypersonic.firmware.f2.registers`; the source is `firmware/f2/registers.py`. BAR0 of the card's",
        f"application function is a window of {WINDOW_BYTES >> 20} MiB on the shell's OCL bus, in words of 32 bits. Other",
        "offsets read 0 and ignore writes; every access is answered.",
        "",
        "| offset | what |",
        "|---|---|",
        f"| n * 0x{UNIT_STRIDE:x}, n = 0 to {MAX_UNITS - 1} | the registers of compute unit n ([registers.md](registers.md)) |",
        f"| 0x{IDENTITY:x} | the identity block |",
        "",
        "The identity block, offsets from its begin:",
        "",
        "| offset | register | access | meaning |",
        "|---|---|---|---|",
    ]
    for register in REGISTERS:
        end = register.offset + 4 * register.words - 1
        lines.append(f"| 0x{register.offset:02x}-0x{end:02x} | {register.name} | {register.access} | {register.text} |")
    return "\n".join([*lines, ""])


def products(root: Path) -> dict[Path, str]:
    """The files written from this map, below the repository's root, with their texts."""
    return {root / "firmware" / "rtl" / "f2_registers.svh": systemverilog(), root / "docs" / "f2-registers.md": markdown()}


def main() -> None:
    for file, text in products(Path(__file__).resolve().parents[2]).items():
        file.write_text(text)


if __name__ == "__main__":
    main()
