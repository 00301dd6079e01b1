# SPDX-License-Identifier: Apache-2.0
"""The golden library's own part: how hls4ml's constants get into it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hypersonic.hls.csim import filled_at_start

HEADER = """//Min -0.5
#ifndef W2_H_
#define W2_H_

weight2_t w2[4] = {-0.50000, 0.25, 1e-3, 7};

#endif
"""
PRINTS = """
#include <cstdio>
typedef double weight2_t;
struct exponent { int sign, weight; };
#include "w2.h"
#include "w3.h"
int main() { for (double w : w2) std::printf("%g ", w); std::printf("%d\\n", w3[1].weight); }
"""


def test_arrays_are_filled_with_the_same_values_and_other_constants_stay(tmp_path: Path) -> None:
    exponents = "exponent w3[2] = {{1, 2}, {0, 3}};\n"
    assert filled_at_start(exponents) == exponents
    (tmp_path / "w2.h").write_text(filled_at_start(HEADER))
    (tmp_path / "w3.h").write_text(exponents)
    (tmp_path / "main.cpp").write_text(PRINTS)
    subprocess.run(["g++", "main.cpp", "-o", "main"], cwd=tmp_path, check=True)
    printed = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    assert printed == "-0.5 0.25 0.001 7 3\n"
    assert "w2[4] = {" not in (tmp_path / "w2.h").read_text()
