# SPDX-License-Identifier: Apache-2.0
"""The fields of a packed row in a model's YAML: what they become, and mistakes, each with one clear message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hypersonic.hls.build import build_project
from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.frontend.checks import DescriptionError
from hypersonic.hls.frontend.description import read_description
from hypersonic.hls.frontend.fields import read_packing
from hypersonic.own.task import OwnData, own_task
from tests.hls.packing.linear_model import CHARGES, FIELDS, WEIGHTS, write_model


def test_a_model_with_packed_rows_is_converted_and_its_csim_is_fed_the_numbers_of_its_tables(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.random.default_rng(1).normal(0, 3, (50, 10)))  # numbers: the nearest codes are sent
    file = write_model(
        tmp_path,
        {"fields": FIELDS, "scale_exponents": 1},
        gate={"rows": "rows.npy", "tolerance": "none", "quantised_tolerance": 1e-5},
    )
    project, _ = build_project(str(file), tmp_path / "built", core="csim")
    (x,) = project.inputs.tensors
    assert (x.datatype, x.shape, x.size, x.row_bytes) == ("UINT8", (3,), 10, 3)
    assert project.report["gate"]["rows"] == 50
    (sent,) = own_task(str(file), project, OwnData(tmp_path / "rows.npy", None)).task.sample(0, 0).inputs
    assert (sent.shape, sent.dtype.name) == ((50, 3), "uint8")
    gain, ieta, adc, depth = 1, -20, [0, 7, 3, 1], 4
    bits = gain | (ieta & 63) << 1 | sum(code << (7 + 3 * i) for i, code in enumerate(adc)) | depth << 19
    row = np.frombuffer(bits.to_bytes(3, "little"), np.uint8)[None]
    numbers = np.array([ieta, *CHARGES[gain][adc], 0, 0, 0, 1, 0]) * 2.0
    assert x.to_raw(row).tolist() == [x.fixed.from_float(numbers).tolist()]
    raw = Csim(compile_csim(project), project).predict_raw(project.inputs.to_raw([row]))
    expected = x.fixed.to_float(x.to_raw(row)) @ WEIGHTS
    assert project.outputs.tensors[0].fixed.to_float(raw).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([*FIELDS[:-1]], "the fields become 5 elements (gain 0, ieta 1, adc 4), the network takes 10"),
        ([{"name": "x", "bits": 17}], "x: input.fields[0].bits is 17, expected an integer from 1 to 16"),
        ([{"name": "x"}], "input.fields[0].bits is missing"),
        ([{"bits": 3}], "input.fields[0].name is None, expected a text"),
        ([{"name": "x", "bits": 3, "lut": 1}], "input.fields[0]: unknown field lut"),
        ([{"name": "x", "bits": 3, "signed": 1}], "input.fields[0].signed is 1, expected true or false"),
        (
            [{"name": "x", "bits": 3, "table": [1, 2]}],
            "field 'x': a table of 2 numbers, expected 8, one for each code of 3 bits",
        ),
        ([{"name": "x", "bits": 1, "table": "gone.npy"}], "input.fields[0].table is 'gone.npy', which gives no table: FileNot"),
        ([{"name": "x", "bits": 1, "table": "math:gone"}], "which gives no table: AttributeError"),
        ([{"name": "x", "bits": 1, "table": ["a", "b"]}], "an array of <U1 of shape (2,), expected numbers of shape (codes,)"),
        ([{"name": "x", "bits": 1, "table": 3}], "input.fields[0].table is 3, expected a list of numbers, a .npy file or"),
        (FIELDS[1:], "field 'adc': select is 'gain', expected one of the fields ieta, adc, depth"),
        ({"name": "x"}, "input.fields is {'name': 'x'}, expected a list of 1 to 256 fields"),
    ],
)
def test_a_mistake_in_the_fields_is_refused_by_name(tmp_path: Path, fields: Any, message: str) -> None:
    np.save(tmp_path / "charges.npy", CHARGES)
    with pytest.raises(DescriptionError) as error:
        read_packing("x: input", {"fields": fields}, "UINT8", 10, tmp_path)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("side", "message"),
    [
        ({"fields": FIELDS, "table": [1] * 256}, "input has both fields and table, expected one of them"),
        ({"fields": FIELDS, "datatype": "UINT16"}, "input: fields with datatype UINT16, expected UINT8 without wire"),
        ({"fields": FIELDS, "shape": [3]}, "input: fields with a shape, expected none"),
        ({"table": [1] * 256}, "input: table with datatype None, expected UINT8 or UINT16 without wire"),
        ({"table": [1] * 256, "datatype": "FP32"}, "table with datatype FP32, expected UINT8 or UINT16 without wire"),
    ],
)
def test_fields_and_a_table_are_for_integers_without_a_type(tmp_path: Path, side: dict[str, Any], message: str) -> None:
    with pytest.raises(DescriptionError) as error:
        read_description(write_model(tmp_path, side))
    assert message in str(error.value)


def test_a_table_for_a_whole_tensor_leaves_its_shape_and_datatype(tmp_path: Path) -> None:
    squares = (np.arange(4096.0) ** 2).tolist()
    (side,) = read_description(write_model(tmp_path, {"datatype": "UINT16", "table": squares, "shape": [2, 5]})).inputs
    packing = read_packing("x", side.packed, side.datatype, 10, tmp_path)
    assert (side.datatype, side.shape, packing.row_bytes, packing.size) == ("UINT16", (2, 5), 20, 10)
    codes = np.array([[0, 1, 2, 3, 4095, 5, 6, 7, 8, 9]], np.uint16)
    assert packing.numbers(codes.view(np.uint8)).tolist() == (codes.astype(float) ** 2).tolist()
