# SPDX-License-Identifier: Apache-2.0
"""The numbers of ap_fixed's rounding and overflow modes in RTL: constants of two modules, generated from hls/fixed.py.

`python -m hypersonic.firmware.kernel.fixed_modes` rewrites the block between two marker lines in each module; a test checks
that the blocks are current.
"""

from __future__ import annotations

import re
from pathlib import Path

from hypersonic.hls.fixed import OVERFLOW_CODES, ROUNDING_CODES

_FILES = ("firmware/rtl/fixed_round.sv", "hls/rtl/rf/rf_cast.sv")

_FIRST = "  // ap_fixed's modes, written by firmware/kernel/fixed_modes.py"
_LAST = "  // end of the modes"
_BLOCK = re.compile(rf"^{re.escape(_FIRST)}$.*?^{re.escape(_LAST)}$", re.MULTILINE | re.DOTALL)


def constants() -> str:
    """The block of localparams, with its marker lines."""
    codes = {mode.removeprefix("AP_"): code for table in (ROUNDING_CODES, OVERFLOW_CODES) for mode, code in table.items()}
    return "\n".join([_FIRST, *(f"  localparam int {name} = {code};" for name, code in codes.items()), _LAST])


def products(root: Path) -> dict[Path, str]:
    """The text of each of the two modules with a current block.

    Args:
        root: the repository's.

    Raises:
        ValueError: For a module without the marker lines.
    """
    texts = {root / name: (root / name).read_text() for name in _FILES}
    if without := [str(file) for file, text in texts.items() if len(_BLOCK.findall(text)) != 1]:
        raise ValueError(f"{', '.join(without)}: expected one block from {_FIRST.strip()!r} to {_LAST.strip()!r}")
    return {file: _BLOCK.sub(constants(), text) for file, text in texts.items()}


def main() -> None:
    """Write the modules with current blocks into this repository."""
    for file, text in products(Path(__file__).resolve().parents[2]).items():
        file.write_text(text)


if __name__ == "__main__":
    main()
