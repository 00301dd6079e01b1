# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2

from hypersonic.firmware.errors import ManifestError, ManifestMismatchError, XclbinError
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.config_pbtxt import config_pbtxt
from hypersonic.firmware.publish.manifest import Manifest, check, check_weights
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec
from tests.firmware.publish.manifests import INPUT, MANIFEST, OUTPUT, XCLBIN


def test_a_manifest_reads_back_as_written(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(MANIFEST.to_json())
    assert Manifest.read(path) == MANIFEST


@pytest.mark.parametrize(
    ("gate", "accepted"),
    [({"accepted": ["y: a", "z: b"]}, "y: a; z: b"), ({}, ""), (None, ""), ({"accepted": "y"}, ""), ([], "")],
)
def test_a_model_that_is_far_and_was_accepted_says_so_in_its_configuration(gate: Any, accepted: str) -> None:
    manifest = replace(MANIFEST, report={"gate": gate})
    assert manifest.accepted == accepted
    config = text_format.Parse(config_pbtxt(manifest), model_config_pb2.ModelConfig())
    assert (
        config.parameters["far_from_trained_model"].string_value == accepted
        if accepted
        else ("far_from_trained_model" not in config.parameters)
    )


def test_a_manifest_of_schema_3_is_read_as_one_without_a_digest() -> None:
    fields = json.loads(MANIFEST.to_json())
    del fields["kernel_sha256"]
    assert Manifest.parse(json.dumps({**fields, "schema": 3})) == replace(MANIFEST, kernel_sha256="")


def test_the_json_has_the_agreed_fields() -> None:
    fields = json.loads(MANIFEST.to_json())
    assert fields["schema"] == 4
    assert fields["compute_units"] == ["facile_1", "facile_2"]
    assert fields["inputs"] == [INPUT.to_json()]
    assert (len(fields["uuid"]), len(fields["sha256"])) == (32, 64)
    assert (fields["target"], fields["platform"], fields["kernel"]) == ("hw_emu", "u250", "facile")


@pytest.mark.parametrize("as_file", [False, True])
def test_weights_stand_in_the_manifest_by_size_and_hash_and_are_checked_by_them(tmp_path: Path, as_file: bool) -> None:
    image = bytes(range(64)) * 3
    (tmp_path / "image").write_bytes(image)
    xclbin = assemble_xclbin("facile", Target.HW_EMU, find_platform("u250"), b"simulator", weights=True)
    manifest = Manifest.of(
        xclbin, model="facile", platform="u250", core="rf", inputs=MANIFEST.inputs, outputs=MANIFEST.outputs, ii=1,
        latency_cycles=14, max_batch_size=16, weights=tmp_path / "image" if as_file else image,
    )  # fmt: skip
    assert (manifest.weights_bytes, manifest.weights_sha256) == (192, hashlib.sha256(image).hexdigest())
    assert Manifest.parse(manifest.to_json()) == manifest
    check(manifest, xclbin)
    check_weights(manifest, image)
    with pytest.raises(
        ManifestMismatchError, match=r"weights_bytes is 192, but weights\.bin has 128; .*publish the model again"
    ):
        check_weights(manifest, image[:128])
    with pytest.raises(ManifestMismatchError, match=r"weights_sha256 is '\w{64}', but weights\.bin has '\w{64}'"):
        check_weights(manifest, bytes(192))


def test_weights_where_the_kernel_takes_none_or_none_where_it_does_are_refused() -> None:
    with pytest.raises(ManifestMismatchError, match=r"weights_bytes is 64, but the xclbin's kernel reads none \(it has no"):
        check(replace(MANIFEST, weights_bytes=64, weights_sha256="0" * 64), XCLBIN)
    xclbin = assemble_xclbin("facile", Target.HW_EMU, find_platform("u250"), b"simulator", compute_units=2, weights=True)
    manifest = replace(MANIFEST, uuid=Xclbin.parse(xclbin).uuid, sha256=hashlib.sha256(xclbin).hexdigest())
    with pytest.raises(
        ManifestMismatchError, match=r"weights_bytes is 0, but the xclbin's kernel reads weights \(its argument w"
    ):
        check(manifest, xclbin)


def test_one_scale_for_all_of_a_large_tensor_takes_no_room_and_none_is_taken_for_it_unseen() -> None:
    strain = TensorSpec("strain", (8192, 21), FixedPoint(16, 6), scale_exponents=(-2,) * (8192 * 21))
    text = replace(MANIFEST, inputs=Row((strain,))).to_json()
    assert len(text) < 2000
    assert Manifest.parse(text).inputs.tensors == (strain,)
    fields = json.loads(text)
    fields["inputs"][0]["shape"] = [1 << 40]
    with pytest.raises(ManifestError, match="1 scale exponents, expected 1099511627776, one per element"):
        Manifest.parse(json.dumps(fields))


def test_a_manifest_of_these_bytes_is_accepted() -> None:
    assert check(MANIFEST, XCLBIN).uuid == MANIFEST.uuid


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("target", Target.SW_EMU, "target is 'sw_emu', but the xclbin has 'hw_emu'"),
        ("platform", "u55c", "platform is 'xilinx_u55c.*, but the xclbin has 'xilinx_u250"),
        ("kernel", "jet", "kernel is 'jet', but the xclbin has 'facile'"),
        ("compute_units", ("facile_1",), r"compute_units is \['facile_1'\], but the xclbin has \['facile_1', 'facile_2'\]"),
        ("uuid", "0" * 32, "uuid is '0000"),
        ("sha256", "0" * 64, "sha256 is '0000"),
    ],
)
def test_a_manifest_of_another_xclbin_is_refused_by_field(field: str, value: Any, message: str) -> None:
    with pytest.raises(ManifestMismatchError, match=f"manifest of model 'facile': {message}.*publish the model again"):
        check(replace(MANIFEST, **{field: value}), XCLBIN)


def test_a_truncated_xclbin_is_refused_as_such() -> None:
    with pytest.raises(XclbinError, match="truncated"):
        check(MANIFEST, XCLBIN[:-8])


def _with(**changes: Any) -> str:
    return json.dumps(json.loads(MANIFEST.to_json()) | changes)


def _without(field: str) -> str:
    fields = json.loads(MANIFEST.to_json())
    del fields[field]
    return json.dumps(fields)


@pytest.mark.parametrize("field", [name for name in json.loads(MANIFEST.to_json()) if name not in {"tools", "report"}])
def test_a_missing_field_is_named(field: str) -> None:
    with pytest.raises(ManifestError, match=f"manifest: {field} is (missing|None)"):
        Manifest.parse(_without(field))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("[1]", "is a JSON list, expected an object"),
        ("[" * 100_000, "not JSON"),
        (" " * (1 << 21), "more than 1048576 bytes"),
        (_with(schema=2), "schema is 2, expected 4; publish the model again"),
        (_with(model="../../etc"), "model is '../../etc', expected a name"),
        (_with(target="fpga"), "target is 'fpga', expected one of sw_emu, hw_emu, hw"),
        (_with(platform="u999"), "platform is 'u999', expected one of aws_f2, "),
        (_with(uuid="abc"), "uuid is 'abc', expected 32 hexadecimal digits"),
        (_with(sha256="ab"), "sha256 has 2 digits, expected 64"),
        (_with(ii=0), "ii is 0, expected a positive integer"),
        (_with(ii=True), "ii is True, expected a positive integer"),
        (_with(ii=1.5), "ii is 1.5, expected a positive integer"),
        (_with(max_batch_size=1 << 40), "max_batch_size is 1099511627776, expected"),
        (_with(weights_bytes=65), "weights_bytes is 65, expected 0, or whole beats of 64 bytes up to"),
        (_with(weights_bytes=-64), "weights_bytes is -64, expected 0, or whole"),
        (_with(weights_bytes=1 << 41), "weights_bytes is 2199023255552, expected 0, or whole"),
        (_with(weights_bytes="64"), "weights_bytes is '64', expected 0, or whole"),
        (_with(weights_bytes=64), "weights_sha256 is '', expected 64 hexadecimal digits"),
        (_with(weights_bytes=64, weights_sha256="0" * 62), "weights_sha256 has 62 digits, expected 64"),
        (_with(weights_sha256="0" * 64), "weights_sha256 is '0000.*expected an empty text with 0 weights_bytes"),
        (_with(compute_units=[]), "compute_units is .*, expected a list of names"),
        (_with(compute_units=["facile_1", 2]), "compute_units is .*, expected a list of names"),
        (_with(tools=[]), "tools is .*, expected an object"),
        (_with(inputs={}), "inputs is {}, expected a list of tensors"),
        (_with(inputs=[]), "inputs has 0 tensors, expected 1 to 64"),
        (_with(inputs=[{}] * 65), "inputs has 65 tensors, expected 1 to 64"),
        (_with(inputs=[{}]), "a tensor of inputs has no field 'name'"),
        (_with(outputs=[OUTPUT.to_json(), 5]), r"outputs\[1\] is 5, expected a tensor"),
        (_with(outputs=[OUTPUT.to_json()] * 2), "outputs is not a valid row: .*y, y: a name appears twice"),
        (_with(inputs=[INPUT.to_json() | {"shape": [0]}]), "inputs is not a valid row: .*shape is"),
        (_with(inputs=[INPUT.to_json() | {"shape": 5}]), "inputs is not a valid row"),
        (_with(outputs=[OUTPUT.to_json() | {"shape": [1 << 62]}]), "outputs is a row of 18446744073709551616 bytes"),
        (_with(outputs=[OUTPUT.to_json() | {"fixed": "float"}]), "outputs is not a valid row: precision is 'float'"),
        (_with(outputs=[OUTPUT.to_json() | {"fixed": 7}]), "outputs is not a valid row"),
    ],
)
def test_a_field_that_is_not_what_it_must_be_is_named(text: str, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        Manifest.parse(text)


def test_the_error_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ManifestError, match=r"manifest\.json: manifest is not JSON"):
        Manifest.read(path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(list(json.loads(MANIFEST.to_json()))), json_values)
def test_any_value_in_any_field_is_read_or_refused(field: str, value: Any) -> None:
    with contextlib.suppress(ManifestError):
        Manifest.parse(_with(**{field: value}))


@given(st.sampled_from(list(INPUT.to_json())), json_values)
def test_any_value_in_a_tensor_is_read_or_refused(field: str, value: Any) -> None:
    with contextlib.suppress(ManifestError):
        Manifest.parse(_with(inputs=[OUTPUT.to_json(), INPUT.to_json() | {field: value}]))


def test_config_pbtxt_is_a_model_config_triton_reads() -> None:
    config = text_format.Parse(config_pbtxt(MANIFEST), model_config_pb2.ModelConfig())
    assert (config.name, config.backend, config.max_batch_size) == ("facile", "fpga", 160_000)
    assert (config.input[0].name, list(config.input[0].dims)) == ("x", [18])
    assert config.input[0].data_type == model_config_pb2.TYPE_FP32
    assert list(config.output[0].dims) == [1]
    assert list(config.dynamic_batching.preferred_batch_size) == [16_000]
    assert config.dynamic_batching.max_queue_delay_microseconds == 100
    assert config.instance_group[0].kind == model_config_pb2.ModelInstanceGroup.KIND_CPU
    values = {key: value.string_value for key, value in config.parameters.items()}
    assert values == {"slot_rows": "16384", "slots": "2", "timeout_ms": "10000"}


@pytest.mark.parametrize(
    ("target", "size", "ii", "expected"),
    [
        (Target.HW, 18, 1, ("16384", "10000")),
        (Target.HW, 49_500, 36_000, ("84", "10000")),
        (Target.HW_EMU, 18, 1, ("16384", "10000")),
        (Target.HW_EMU, 47, 100, ("10000", "120000")),
        (Target.HW_EMU, 2464, 73_728, ("13", "120000")),
        (Target.SW_EMU, 2304, 1, ("227", "120000")),
        (Target.SW_EMU, 1_000_000, 1, ("1", "120000")),
    ],
)
def test_slots_of_long_rows_hold_fewer_of_them(target: Target, size: int, ii: int, expected: tuple[str, str]) -> None:
    long = replace(MANIFEST, target=target, ii=ii, inputs=Row((replace(INPUT, shape=(size,), scale_exponents=()),)))
    config = text_format.Parse(config_pbtxt(long), model_config_pb2.ModelConfig())
    assert (config.parameters["slot_rows"].string_value, config.parameters["timeout_ms"].string_value) == expected


def test_config_pbtxt_names_all_tensors_in_order() -> None:
    flags = TensorSpec('odd "name"', (2, 3), FixedPoint(8, 8, signed=False), "UINT8")
    both = replace(MANIFEST, inputs=Row((INPUT, flags)), outputs=Row((flags, OUTPUT)))
    config = text_format.Parse(config_pbtxt(both), model_config_pb2.ModelConfig())
    assert [(tensor.name, list(tensor.dims)) for tensor in config.input] == [("x", [18]), ('odd "name"', [2, 3])]
    assert [tensor.data_type for tensor in config.output] == [model_config_pb2.TYPE_UINT8, model_config_pb2.TYPE_FP32]


def test_config_pbtxt_takes_other_parameters_and_never_prefers_more_than_the_maximum() -> None:
    small = replace(MANIFEST, max_batch_size=64)
    text = config_pbtxt(small, max_queue_delay_us=5, parameters={"slots": "4", "note": 'quote " and \\ and é'})
    config = text_format.Parse(text, model_config_pb2.ModelConfig())
    assert list(config.dynamic_batching.preferred_batch_size) == [64]
    assert config.parameters["slots"].string_value == "4"
    assert config.parameters["note"].string_value == 'quote " and \\ and é'
