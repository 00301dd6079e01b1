# SPDX-License-Identifier: Apache-2.0
"""Counting numbers in C++ of our own: each operator passes a wrap on, or says that the number has left its variable."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.csim.overflow.figures import Overflows
from hypersonic.hls.csim.overflow.run import answers_and_overflows
from hypersonic.hls.csim.overflow.source import names_of
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.project import HlsProject
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec

#: hls4ml's folder, without importing it
HLS4ML = Path(getattr(find_spec("hls4ml"), "origin", "")).parent

DEFINES = """
#include "ap_fixed.h"
#include "ap_int.h"
#include "hls_stream.h"
typedef ap_fixed<16,8> input_t;
typedef ap_fixed<12,4> narrow_t;
typedef ap_fixed<12,4> other_t;
typedef ap_fixed<12,4,AP_RND,AP_SAT_SYM> saturated_t;
typedef ap_fixed<24,12> result_t;
typedef ap_int<5> integer_t;
typedef ap_uint<3> index_t;
typedef ap_fixed<80,4> long_t;
"""

#: layer -> its statements, with x from 5 to 7.9 in the first 2 rows and from 0 to 0.9 in the others; y is its result
LAYERS = {
    "stored": "narrow_t a = x * 2; y = a;",
    "cancels": "narrow_t a = x + x; a -= x; y = a;",
    "negated": "narrow_t a = x + x; narrow_t b = -a; b += x; y = b;",
    "scaled": "narrow_t a = x + x; y = a * input_t(0.5);",
    "copied": "narrow_t a = x + x; narrow_t b = a; narrow_t c; c = b; c -= x; y = c;",
    "renamed": "narrow_t a = x + x; other_t b = a; b -= x; y = b;",
    "compared": "narrow_t a = x + x; y = a > 0 ? 1 : 0; a -= x;",
    "sliced": "narrow_t a = x + x; y = a(11, 8); a -= x;",
    "divided": "narrow_t a = x + x; y = a / input_t(2); a -= x;",
    "real": "narrow_t a = x + x; y = a.to_double(); a -= x;",
    "shifted": "narrow_t a = x; y = a << 1;",
    "halved": "narrow_t a = x + x; narrow_t b = a >> 1; y = b;",
    "integers": "integer_t a = x.to_int(); a += a; a += a; y = a;",
    "integers_cancel": "integer_t a = x.to_int(), b = a; a += a; a += a; a -= b; a -= b; a -= b; y = a;",
    "truncated": "index_t a = x + x; y = a;",
    "saturated": "saturated_t a = x + x; y = a;",
    "long_numbers": "long_t a = x + x; y = a;",
    "long_cancels": "long_t a = x + x; a -= x; y = a;",
    "kept": "static narrow_t a = 0; y = a; a = x + x; narrow_t b = a; b -= x;",
    "written_out": "ap_fixed<10,4> a = x + x; y = a;",
}

#: layer -> the variable whose wraps leave it; where `renamed` cancels it, other_t wraps
WRONG = {
    "stored": "narrow_t",
    "scaled": "narrow_t",
    "renamed": "narrow_t, other_t",
    "compared": "narrow_t",
    "sliced": "narrow_t",
    "divided": "narrow_t",
    "real": "narrow_t",
    "shifted": "narrow_t",
    "halved": "narrow_t",
    "integers": "ap_int<5>",
    "truncated": "ap_uint<3>",
    "long_numbers": "long_t",
    "written_out": "ap_fixed<10,4>",
}

X = np.array([[5.0], [7.875], [0.0], [0.875]])


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> tuple[HlsProject, np.ndarray, Overflows]:
    project = project_of(tmp_path_factory.mktemp("counted"))
    y, found = answers_and_overflows(project, (X * 256).astype(np.int64))
    return project, y, found


def project_of(directory: Path, layers: Mapping[str, str] = LAYERS) -> HlsProject:
    firmware = directory / "hls" / "firmware"
    templates = HLS4ML / "templates" / "vivado"
    for folder in ("weights", "nnet_utils"):
        (firmware / folder).mkdir(parents=True)
    shutil.copytree(templates / "ap_types", firmware / "ap_types")
    (firmware / "defines.h").write_text(DEFINES)
    (firmware / "parameters.h").write_text('#include "defines.h"\n')
    count = len(layers)
    head = f"void answer(\n    input_t x[1],\n    result_t y[{count}]\n)"
    (firmware / "answer.h").write_text(f'#pragma once\n#include "defines.h"\n{head};\n')
    functions = "".join(
        f"static void {layer}_of(const input_t &x, result_t &y) {{ {body} }}\n" for layer, body in layers.items()
    )
    calls = "".join(f"    {layer}_of(x[0], y[{place}]); // {layer}\n\n" for place, layer in enumerate(layers))
    (firmware / "answer.cpp").write_text(f'#include "answer.h"\n#include "parameters.h"\n{functions}{head} {{\n{calls}}}\n')
    inputs = Row((TensorSpec("x", (1,), FixedPoint(16, 8)),))
    outputs = Row((TensorSpec("y", (count,), FixedPoint(24, 12)),))
    return HlsProject(directory, "answer", inputs, outputs, "part", {})


def test_a_wrap_is_wrong_where_the_number_leaves_its_variable_and_not_where_it_cancels(
    counted: tuple[HlsProject, np.ndarray, Overflows],
) -> None:
    wrong = {layer: ", ".join(each.variable for each in counted[2].wrong if each.layer == layer) for layer in LAYERS}
    assert {layer: names for layer, names in wrong.items() if names} == WRONG
    assert {each.wrong_rows for each in counted[2].wrong} == {2}


def test_numbers_are_those_of_plain_ap_types(counted: tuple[HlsProject, np.ndarray, Overflows]) -> None:
    project, y, _ = counted
    np.testing.assert_array_equal(
        y, Csim(compile_csim(project, optimisation="-O0"), project).predict_raw((X * 256).astype(np.int64))
    )


def test_each_wrap_is_counted_once(counted: tuple[HlsProject, np.ndarray, Overflows]) -> None:
    wrapped = {each.layer: each.wrapped for each in counted[2].variables if each.variable in {"narrow_t", "long_t"}}
    assert wrapped["stored"] == wrapped["long_numbers"] == 2
    assert wrapped["cancels"] == 4  # there and back
    assert wrapped["compared"] == 4


def test_symmetric_saturation_is_counted(counted: tuple[HlsProject, np.ndarray, Overflows]) -> None:
    (each,) = counted[2].saturated
    assert (each.layer, each.variable, each.saturated, each.greatest) == ("saturated", "saturated_t", 2, 15.75)


def test_variables_that_must_have_one_type_are_counted_together(tmp_path: Path) -> None:
    layers = {
        "same": "narrow_t a = x + x; other_t b = 1; b = std::max(a, b); y = b;",
        "cancels": "narrow_t a = x + x; a -= x; y = a;",
        "fits": "other_t a = x; y = a;",
    }
    y, found = answers_and_overflows(project_of(tmp_path, layers), (X * 256).astype(np.int64))
    assert [(each.layer, each.wrong_rows) for each in found.wrong] == [("same", 2)]
    assert y[0].tolist() == [4096, 5 * 4096, 5 * 4096]


def test_several_calls_below_a_comment_are_one_layers(tmp_path: Path) -> None:
    project = project_of(tmp_path)
    file = project.hls / "firmware" / "answer.cpp"
    file.write_text(file.read_text().replace("    stored_of(x[0], y[0]); // stored\n", "    // twice\n    a();\n    b();\n"))
    assert names_of(project.hls / "firmware", "answer", 1).layers[:3] == ("twice", "twice", "cancels")
