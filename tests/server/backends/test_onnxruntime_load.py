# SPDX-License-Identifier: Apache-2.0
"""Models that ONNX Runtime loads, completes, or refuses."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from hypersonic.server.backends.onnxruntime.backend import OnnxRuntimeBackend
from hypersonic.server.core.inference.pending import Share
from hypersonic.server.core.inference.request import InputTensor
from hypersonic.server.errors import ModelLoadError, ServerError
from tests.server.onnx_graphs import (
    ADD_SUB,
    add_sub,
    completed,
    config_of,
    graph,
    identity,
    node,
    share,
    tensors,
    write_onnx,
)
from tests.server.onnx_runs import load, refused, run, same


def test_controls_and_states_of_a_sequence_are_inputs_and_outputs(tmp_path: Path) -> None:
    text = (
        "max_batch_size: 4\n"
        + tensors("input", ("x", "FP32", [1]))
        + tensors("output", ("y", "FP32", [1]))
        + """sequence_batching { oldest { max_candidate_sequences: 4 }
          control_input [ { name: "start" control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] } ]
          state [ { input_name: "in" output_name: "out" data_type: TYPE_FP32 dims: [ 1 ] } ] }"""
    )
    values = [(name, "FP32", ("N", 1)) for name in ("x", "start", "in")]
    nodes = [node("Add", "x in", "out"), node("Add", "out start", "y")]
    model, config = load(tmp_path, graph(nodes, values, [(n, "FP32", ("N", 1)) for n in ("y", "out")]), text)

    def one(x: float, start: float, state: float) -> Share:
        piece = share(config, x=np.array([[x]], np.float32))
        extra = [
            InputTensor(n, "FP32", (1, 1), memoryview(np.float32(v).tobytes())) for n, v in (("start", start), ("in", state))
        ]
        piece.pending.request = piece.pending.request._replace(extra=tuple(extra))
        return piece

    slot = model.instances[0].slots[0]
    slot.start([one(1, 100, 10), one(2, 0, 20)])
    slot.finish()
    answers = [{o.position: np.frombuffer(o.chunks[0], np.float32).item() for o in slot.answer(i).outputs} for i in (0, 1)]
    assert answers == [{0: 111.0, 1: 11.0}, {0: 22.0, 1: 22.0}]


def test_instances_are_named_as_triton_names_them_and_share_one_session(tmp_path: Path) -> None:
    model, _ = load(tmp_path, identity("FP32"), same("FP32") + 'instance_group [ { name: "g" count: 3 kind: KIND_CPU } ]')
    assert [instance.name for instance in model.instances] == ["g_0", "g_1", "g_2"]
    assert len({id(slot._session) for instance in model.instances for slot in instance.slots}) == 1
    assert model.standby == ()
    assert [model.card(instance) for instance in model.instances] == [None] * 3


def test_auto_completion_takes_everything_from_a_batching_model(tmp_path: Path) -> None:
    message = completed(write_onnx(tmp_path, "m", add_sub(), ""), "")
    assert message.max_batch_size == 4
    assert message.HasField("dynamic_batching")
    assert [(i.name, list(i.dims)) for i in message.input] == [("a", [4]), ("b", [4])]
    assert [(o.name, list(o.dims)) for o in message.output] == [("sum", [4]), ("difference", [4])]
    assert [(g.count, g.kind) for g in message.instance_group] == [(2, 2)]


def test_auto_completion_keeps_what_is_there(tmp_path: Path) -> None:
    directory = write_onnx(tmp_path, "m", add_sub(), "")
    message = completed(directory, "max_batch_size: 32 sequence_batching { } instance_group [ { count: 5 } ]")
    assert message.max_batch_size == 32
    assert not message.HasField("dynamic_batching")
    assert message.instance_group[0].count == 5
    message = completed(directory, "max_batch_size: 1")
    assert not message.HasField("dynamic_batching")


def test_auto_completion_leaves_a_config_with_inputs_and_outputs_alone(tmp_path: Path) -> None:
    directory = write_onnx(tmp_path, "m", b"not read", "")
    message = completed(directory, ADD_SUB)
    assert message.max_batch_size == 8
    assert not message.HasField("dynamic_batching")


def test_auto_completion_of_a_model_without_a_batch_dimension(tmp_path: Path) -> None:
    directory = write_onnx(tmp_path, "m", identity("INT8", (2, "M")), "")
    message = completed(directory, "")
    assert (message.max_batch_size, list(message.input[0].dims), list(message.output[0].dims)) == (0, [2, -1], [2, -1])
    with pytest.raises(ModelLoadError, match="model does not support batching while non-zero max_batch_size is specified"):
        completed(directory, "max_batch_size: 2")


def test_auto_completion_of_a_vector_of_rows_needs_a_reshape(tmp_path: Path) -> None:
    message = completed(write_onnx(tmp_path, "m", identity("FP32", ("N",)), ""), "")
    assert list(message.input[0].dims) == [1]
    assert message.input[0].HasField("reshape")
    assert list(message.input[0].reshape.shape) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ADD_SUB.replace('"b"', '"c"'), "unexpected inference input 'c', allowed inputs are: a, b"),
        (ADD_SUB.replace('"sum"', '"s"'), "unexpected inference output 's', allowed outputs are: difference, sum"),
        (
            ADD_SUB.replace("FP32", "INT32", 1),
            "unable to load model 'm', configuration expects datatype TYPE_INT32 for input 'a', model provides TYPE_FP32",
        ),
        (
            ADD_SUB.replace("dims: [ 4 ]", "dims: [ 4, 1 ]", 1),
            "because max_batch_size > 0 followed by the explicit tensor shape, making complete shape [-1,4,1])",
        ),
        (
            ADD_SUB.replace("max_batch_size: 8", ""),
            "the model expects 2 dimensions (shape [-1,4]) but the model configuration specifies 1 dimensions (shape [4])",
        ),
        (
            tensors("input", ("a", "FP32", [4])) + tensors("output", ("sum", "FP32", [4])),
            "unable to load model 'm', configuration expects 1 inputs, model provides 2",
        ),
        (
            ADD_SUB.replace("dims: [ 4 ] }, {", "dims: [ 4 ] optional: true }, {", 1),
            "unable to load model 'm', optional input 'a' is not supported for models that support batching",
        ),
        (
            ADD_SUB.replace("dims: [ 4 ] }, {", "dims: [ 4 ] allow_ragged_batch: true }, {", 1),
            "configuration expects model provides input with shape [-1]  for ragged input 'a', model provides [-1,4]",
        ),
    ],
)
def test_a_config_that_is_not_the_models_is_refused_by_name(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in refused(tmp_path, add_sub(), text)


def test_a_fixed_first_dimension_is_no_batch(tmp_path: Path) -> None:
    text = refused(tmp_path, identity("FP32", (2, 3)), same("FP32"))
    assert "the first dimension must be -1; but shape expected by the model is [2,3]" in text


@pytest.mark.parametrize(
    ("parameter", "value", "expected"),
    [
        ("execution_mode", "2", "Expected values for  execution_mode are 0 or 1 but got 2 ."),
        ("execution_mode", "x", "parameter execution_mode is 'x'"),
        ("intra_op_thread_count", "-1", "parameter intra_op_thread_count is '-1'"),
        ("inter_op_thread_count", "1000000", "is '1000000', expected an integer from 0 to 1024"),
        ("enable_mem_arena", "maybe", "expected true or false"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(tmp_path: Path, parameter: str, value: str, expected: str) -> None:
    text = same("FP32") + f'parameters {{ key: "{parameter}" value {{ string_value: "{value}" }} }}'
    assert expected in refused(tmp_path, identity("FP32"), text)


def test_parameters_reach_onnx_runtime(tmp_path: Path) -> None:
    values = {
        "intra_op_thread_count": "2",
        "inter_op_thread_count": "2",
        "execution_mode": "1",
        "enable_mem_pattern": "0",
        "session.intra_op.allow_spinning": "1",
        "memory.enable_memory_arena_shrinkage": "cpu:0",
    }
    text = "".join(f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n' for key, value in values.items())
    model, config = load(tmp_path, identity("FP32"), same("FP32") + text + "optimization { graph { level: -1 } }")
    options = model.instances[0].slots[0]._session._session.get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads, options.enable_mem_pattern) == (2, 2, False)
    assert (options.execution_mode.name, options.graph_optimization_level.name) == ("ORT_PARALLEL", "ORT_ENABLE_BASIC")
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "1"
    x = np.ones((1, 3), np.float32)
    np.testing.assert_array_equal(run(model, config, share(config, x=x))[0]["y"], x)


@pytest.mark.parametrize("data", [b"", b"no model at all", identity("FP32")[:40]])
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, data: bytes) -> None:
    assert "1/model.onnx" in refused(tmp_path, data, same("FP32"))


def test_a_model_that_is_not_there_is_refused(tmp_path: Path) -> None:
    text = same("FP32") + 'default_model_filename: "other.onnx"'
    assert "1/other.onnx is missing, or is not a file" in refused(tmp_path, identity("FP32"), text)


def test_a_link_out_of_the_models_directory_is_refused(tmp_path: Path) -> None:
    directory = write_onnx(tmp_path, "m", identity("FP32"), same("FP32"))
    (directory / "model.onnx").rename(tmp_path / "elsewhere.onnx")
    (directory / "model.onnx").symlink_to(tmp_path / "elsewhere.onnx")
    with pytest.raises(ModelLoadError, match="leads out of the model's directory"):
        OnnxRuntimeBackend().load(directory, config_of(same("FP32")))


def external(location: str) -> bytes:
    """y = x + w, w in a file."""
    model = onnx.load_from_string(
        graph([node("Add", "x w", "y")], [("x", "FP32", ("N", 3))], [("y", "FP32", ("N", 3))], {"w": np.zeros(3, np.float32)})
    )
    weights = model.graph.initializer[0]
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value=location)
    return model.SerializeToString()


def test_weights_beside_the_model_are_read(tmp_path: Path) -> None:
    directory = write_onnx(tmp_path, "m", external("w.bin"), same("FP32"))
    np.arange(3, dtype=np.float32).tofile(directory / "w.bin")
    config = config_of(same("FP32"))
    model = OnnxRuntimeBackend().load(directory, config)
    np.testing.assert_array_equal(run(model, config, share(config, x=np.zeros((1, 3), np.float32)))[0]["y"], [[0, 1, 2]])


@pytest.mark.parametrize("location", ["../../secret", "../m/../../secret", "{absolute}", "link"])
def test_weights_outside_the_model_are_not_read(tmp_path: Path, location: str) -> None:
    secret = tmp_path / "secret"
    np.arange(3, dtype=np.float32).tofile(secret)
    directory = write_onnx(tmp_path, "m", external(location.format(absolute=secret)), same("FP32"))
    (directory / "link").symlink_to(secret)
    with pytest.raises(ModelLoadError, match=r"External data path|Absolute path") as raised:
        OnnxRuntimeBackend().load(directory, config_of(same("FP32")))
    assert str(tmp_path) not in str(raised.value)


def test_native_code_of_a_repository_is_not_loaded(tmp_path: Path) -> None:
    text = same("FP32") + 'model_operations { op_library_filename: "evil.so" }'
    assert "no native code" in refused(tmp_path, identity("FP32"), text)


def test_without_the_package_the_error_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ServerError, match=r"pip install '\.\[onnxruntime\]'"):
        load(tmp_path, identity("FP32"), same("FP32"))
