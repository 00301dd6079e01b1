# SPDX-License-Identifier: Apache-2.0
"""Rewrites a copy of hls4ml's C++ so that it compiles and runs in a fraction of the time, with the same results.

- The numbers in `weights/*.h` move into binary files that the assembler includes: g++ takes seconds for an ap_fixed array of
  some thousand initialisers, and hours for a million.
- ap_fixed loses a `volatile` that forces every intermediate result into memory: a network answers in a sixth of the time
  without it.
- The functions that copy a convolution's pixels in io_parallel, with a statement for each, are not optimised: that takes g++
  minutes and gains nothing.
- The state of a recurrent layer and the table of a GarNet, static variables, become thread-local, because several threads
  compute rows at once; a row without vertices does not fill that table.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

#: an array of numbers in a header: its type, its name, its length, and the numbers
_ARRAY = re.compile(rb"^(\w+) (\w+)\[(\d+)\] = \{([^{}]*)\};$", re.MULTILINE)

#: C++'s type by numpy's type character, for the binary files; the smallest integer type that holds all numbers is used
_KINDS = {"b": "signed char", "h": "short", "i": "int", "d": "double"}

#: fills the array when the library is loaded, with the conversion from double that an initialiser would have used
_FILLED = """\
asm(".pushsection .rodata\\n.balign 8\\n{name}_numbers:\\n.incbin \\"weights/{name}.bin\\"\\n.popsection");
extern const {kind} {name}_numbers[] asm("{name}_numbers") __attribute__((visibility("hidden")));
{type} {name}[{count}];
static const bool {name}_filled = [] {{
    for (long i = 0; i < {count}; ++i) {name}[i] = {name}_numbers[i] * 0x1p-{fraction};
    return true;
}}();"""

#: (file, text in it, replacement)
_REWORDED = (
    ("ap_types/etc/ap_private.h", b"void clearUnusedBits(void) volatile", b"void clearUnusedBits(void)"),
    (
        "nnet_utils/nnet_code_gen.h",
        b"    static void fill_buffer(",
        b"""    __attribute__((optimize("O0"))) static void fill_buffer(""",
    ),
    ("nnet_utils/nnet_recurrent.h", b"    static res_T ", b"    static thread_local res_T "),
    ("nnet_utils/nnet_garnet.h", b"    static typename CONFIG_T", b"    static thread_local typename CONFIG_T"),
    ("nnet_utils/nnet_garnet.h", b"    static bool initialized", b"    static thread_local bool initialized"),
)


def prepare(firmware: Path) -> None:
    """Rewrite `firmware`, a copy of hls4ml's firmware/, in place. The compiler must run in this directory."""
    for header in (firmware / "weights").glob("*.h"):
        header.write_bytes(_ARRAY.sub(lambda match: _filled(match, firmware / "weights"), header.read_bytes()))
    for name, words, instead in _REWORDED:
        if (firmware / name).is_file():
            (firmware / name).write_bytes((firmware / name).read_bytes().replace(words, instead))


def _filled(match: re.Match[bytes], weights: Path) -> bytes:
    kind, name, count = (part.decode() for part in match.groups()[:3])
    try:
        values = np.fromstring(match[4], dtype=np.float64, sep=",")
    except ValueError:  # not only numbers
        return match[0]
    if not match[4].strip() or len(values) != int(count) or not np.isfinite(values).all():
        return match[0]
    numbers, fraction = _smallest(values, _decimals(match[4]))
    numbers.tofile(weights / f"{name}.bin")
    return _FILLED.format(name=name, type=kind, count=count, kind=_KINDS[numbers.dtype.char], fraction=fraction).encode()


def _decimals(numbers: bytes) -> int:
    """The digits after the first number's point: hls4ml writes as many as the type has fraction bits."""
    return len(numbers.split(b",", 1)[0].partition(b".")[2].strip())


def _smallest(values: NDArray[np.float64], fraction: int) -> tuple[NDArray[np.generic], int]:
    """values * 2**fraction in the smallest integer type that holds them, and fraction; or the values and 0 if none does."""
    scaled = np.ldexp(values, fraction)
    if np.array_equal(scaled, np.rint(scaled)):
        for kind in "bhi":
            if scaled.min() >= np.iinfo(kind).min and scaled.max() <= np.iinfo(kind).max:
                return scaled.astype(kind), fraction
    return values, 0
