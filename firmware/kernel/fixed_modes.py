# SPDX-License-Identifier: Apache-2.0
"""The numbers of ap_fixed's modes in RTL: the constants of the two modules that round, written from hls/fixed.py's table.

`python -m hypersonic.firmware.kernel.fixed_modes` writes them anew between their marks; a test sees that they are.
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
    """The block of localparams, its marks included."""
    codes = {mode.removeprefix("AP_"): code for table in (ROUNDING_CODES, OVERFLOW_CODES) for mode, code in table.items()}
    return "\n".join([_FIRST, *(f"  localparam int {name} = {code};" for name, code in codes.items()), _LAST])


def products(root: Path) -> dict[Path, str]:
    """The modules below the repository's root, with their texts as they have to be. Raises ValueError for one without marks."""
    texts = {root / name: (root / name).read_text() for name in _FILES}
    if without := [str(file) for file, text in texts.items() if len(_BLOCK.findall(text)) != 1]:
        raise ValueError(f"{', '.join(without)}: expected one block from {_FIRST.strip()!r} to {_LAST.strip()!r}")
    return {file: _BLOCK.sub(constants(), text) for file, text in texts.items()}


def main() -> None:
    for file, text in products(Path(__file__).resolve().parents[2]).items():
        file.write_text(text)


if __name__ == "__main__":
    main()
