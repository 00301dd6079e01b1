# SPDX-License-Identifier: Apache-2.0
"""The YAML beside a model: what it says is taken, what it should not say is refused by field."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hypersonic.hls.frontend.description import DescriptionError, ModelDescription, read_description, sides_of

WHOLE: dict[str, object] = {"name": "tiny", "input": {"precision": "ap_fixed<12,5>", "scale_exponents": [0, 1]}, "output": {}}


def read(directory: Path, content: bytes) -> ModelDescription:
    file = directory / "m.h5"
    file.with_suffix(".yaml").write_bytes(content)
    return read_description(file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": "red"}, "unknown field colour, expected gate, hls4ml, input"),
        ({"name": "../../etc/passwd"}, r"name is '../../etc/passwd', expected a letter, then letters"),
        ({"name": "/etc/x"}, "name is '/etc/x'"),
        ({"name": "a__b"}, "name is 'a__b'"),
        ({"name": "q\n"}, r"name is 'q\\n'"),
        ({"name": None}, "name is None"),
        ({"name": 3}, "name is 3"),
        ({"name": "a" * 30}, "29 characters at most"),
        ({"name": "module"}, "name is 'module', a keyword or reserved name of Verilog or C"),
        ({"name": "main"}, "name is 'main', a keyword or reserved name of Verilog or C"),
        ({"part": "xcu250; exec rm"}, "part is 'xcu250; exec rm', expected an AMD part"),
        ({"max_batch_size": 0}, "max_batch_size is 0, expected an integer from 1"),
        ({"max_batch_size": "many"}, "max_batch_size is 'many', expected an integer from 1"),
        ({"max_batch_size": True}, "max_batch_size is True"),
        ({"max_batch_size": 1 << 31}, "max_batch_size is 2147483648"),
        ({"input": {"name": "x"}}, "input.precision is missing"),
        ({"input": {"precision": "ap_float<16>"}}, "input.precision: precision is 'ap_float<16>'"),
        ({"input": {"precision": "ap_fixed<8,4>", "scale": 1}}, "input: unknown field scale, expected datatype, fields, name"),
        ({"input": {"precision": "ap_fixed<8,4>", "datatype": "FP64"}}, "input.datatype is 'FP64', expected one of FP32"),
        ({"input": {"precision": "ap_fixed<8,4>", "wire": "int8"}}, "input.wire: precision is 'int8'"),
        ({"input": {"precision": "ap_fixed<8,4>", "name": ""}}, "input.name is ''"),
        ({"input": {"precision": "ap_fixed<8,4>", "scale_exponents": [0.5]}}, "scale_exponents is 0.5, expected an integer"),
        ({"input": {"precision": "ap_fixed<8,4>", "scale_exponents": 1.5}}, "scale_exponents is 1.5, expected an integer"),
        ({"input": {"precision": "ap_fixed<8,4>", "scale_exponents": 5_000_000_000}}, "expected an integer from -300 to 300"),
        ({"output": 3}, "output is 3, expected a mapping"),
        ({"inputs": {"a": {}}}, "both input and inputs, expected one of them"),
        ({"outputs": {"a": 3}, "output": None}, "both output and outputs"),
        ({"gate": {"rows": "a:b", "tolerance": {"y": 1, "z": -1}}}, "gate.tolerance is .* or one for each output by name"),
        ({"hls4ml": {"dense_1": {}}}, "hls4ml: unknown field dense_1, expected IOType, LayerName, LayerType, Model"),
        ({"hls4ml": {"LayerName": ["a"]}}, r"hls4ml.LayerName is \['a'\], expected a mapping"),
        ({"hls4ml": {"LayerName": {"d": 3}}}, "hls4ml.LayerName.d is 3, expected a mapping"),
        ({"hls4ml": {"Model": 3}}, "hls4ml.Model is 3, expected a mapping"),
        ({"hls4ml": {"IOType": "stream"}}, "hls4ml.IOType is 'stream', expected io_parallel or io_stream"),
        ({"gate": {"rows": "events", "tolerance": 1}}, "gate is .*, expected rows: 'module:function'"),
        ({"gate": {"rows": "a:b", "tolerance": float("nan")}}, "gate.tolerance is nan, expected a number"),
    ],
)
def test_a_field_that_describes_no_model_is_refused_by_name(tmp_path: Path, change: dict[str, object], message: str) -> None:
    with pytest.raises(DescriptionError, match=message):
        read(tmp_path, yaml.safe_dump({**WHOLE, **change}).encode())


SEVERAL: dict[str, object] = {
    "name": "tiny",
    "inputs": {"b": {"precision": "ap_fixed<8,4>", "datatype": "INT8"}, "a": {"precision": "ap_fixed<9,4>", "name": "wire"}},
    "outputs": {"y": {"precision": "ap_fixed<6,4>"}},
    "gate": {"rows": "a:b", "tolerance": {"y": 1, "z": 2}},
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": {}}, "inputs describes 0 tensors, expected 1 to 64 by name"),
        ({"inputs": {f"x{k}": {} for k in range(65)}}, "inputs describes 65 tensors"),
        ({"inputs": ["a"]}, r"inputs is \['a'\], expected a mapping"),
        ({"inputs": {3: {}}}, "inputs describes 3, expected a tensor's name, a text"),
        ({"inputs": {"a": {"name": "x"}}}, "inputs.a.precision is missing"),
        ({"inputs": {"a": {"precision": "ap_fixed<8,4>", "scale": 1}}}, "inputs.a: unknown field scale"),
        ({"inputs": {"a": {"precision": "ap_fixed<8,4>", "datatype": "FP64"}}}, "inputs.a.datatype is 'FP64'"),
        ({"outputs": {"y": {"scale_exponents": 1.5}}}, "outputs.y.scale_exponents is 1.5"),
        ({"outputs": {"y": 3}}, "outputs.y is 3, expected a mapping"),
    ],
)
def test_a_field_of_one_of_several_tensors_is_refused_by_the_tensors_name(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    with pytest.raises(DescriptionError, match=message):
        read(tmp_path, yaml.safe_dump({**SEVERAL, **change}).encode())


def test_several_tensors_are_told_by_the_models_names_in_the_models_order(tmp_path: Path) -> None:
    description = read(tmp_path, yaml.safe_dump(SEVERAL).encode())
    inputs = sides_of(description.inputs, ["a", "b"], "input")
    assert [(side.name, side.datatype) for side in inputs] == [("wire", "FP32"), ("b", "INT8")]
    outputs = sides_of(description.outputs, ["z", "y"], "output")
    assert [(side.name, str(side.fixed)[:13]) for side in outputs] == [("z", "None"), ("y", "ap_fixed<6,4,")]
    gate = description.gate
    assert gate is not None
    assert (gate.tolerance_of("y"), gate.tolerance_of("z")) == (1.0, 2.0)
    gate.check(["z", "y"])
    with pytest.raises(DescriptionError, match=r"gate.tolerance names y, z, expected each of x, y"):
        gate.check(["x", "y"])
    with pytest.raises(DescriptionError, match=r"inputs names b, the model has a, c"):
        sides_of(description.inputs, ["a", "c"], "input")
    with pytest.raises(DescriptionError, match=r"inputs does not name c, expected each of a, b, c"):
        sides_of(description.inputs, ["a", "b", "c"], "input")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds None, expected the fields name, input and output"),
        (b"- a\n", r"holds \['a'\], expected the fields"),
        (b"name: q\n", "input, output missing, expected name, input and output"),
        (b"a: [b\n  c: ", "is not YAML: while parsing"),
        (b"\xff\xfe\x00", "is not YAML: "),
        (b"[" * 5000, "is not YAML: "),
    ],
)
def test_a_file_that_is_no_description_is_refused_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DescriptionError, match=message) as caught:
        read(tmp_path, content)
    assert "\n" not in str(caught.value)


def test_a_whole_description_is_read(tmp_path: Path) -> None:
    description = read(tmp_path, yaml.safe_dump({**WHOLE, "hls4ml": {"Model": None}, "gate": None}).encode())
    assert (description.name, description.max_batch_size, description.gate, description.hls4ml) == ("tiny", 160_000, None, {})
    assert [side.exponents(2) for side in description.inputs] == [(0, 1)]


@pytest.mark.parametrize(
    ("hls4ml", "core"),
    [
        ({}, "da"),
        ({"Model": {"Strategy": "Latency"}}, "da"),
        ({"Model": {"Strategy": "distributed_arithmetic"}}, "da"),
        ({"Model": {"Strategy": "Resource"}}, "rf"),
        ({"LayerName": {"d": {"Strategy": "resource"}, "e": {"Strategy": "Latency"}}}, "rf"),
        ({"LayerType": {"Dense": {"Strategy": "Resource"}}, "LayerName": None}, "rf"),
    ],
)
def test_hls4mls_strategy_picks_the_core(tmp_path: Path, hls4ml: dict[str, object], core: str) -> None:
    assert read(tmp_path, yaml.safe_dump({**WHOLE, "hls4ml": hls4ml}).encode()).core == core
