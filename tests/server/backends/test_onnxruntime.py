# SPDX-License-Identifier: Apache-2.0
"""Backend onnxruntime against numpy, its auto-completion and its checks against Triton's rules and texts."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from hypersonic.server.errors import BackendError, InvalidRequestError, UnsupportedError
from tests.server.onnx_graphs import ADD_SUB, add_sub, arrays_of, graph, identity, node, share, tensors
from tests.server.onnx_runs import RAGGED, VALUES, load, ragged_sums, run, same


@pytest.mark.parametrize("datatype", VALUES)
def test_every_datatype_comes_back_as_it_went_in(tmp_path: Path, datatype: str) -> None:
    model, config = load(tmp_path, identity(datatype), same(datatype))
    first, second = VALUES[datatype].reshape(1, 3), np.tile(VALUES[datatype][::-1], (2, 1))
    for got, sent in zip(run(model, config, share(config, x=first), share(config, x=second)), (first, second), strict=True):
        np.testing.assert_array_equal(got["y"], sent)
        assert got["y"].dtype == sent.dtype


def test_bfloat16_mixes_with_other_datatypes(tmp_path: Path) -> None:
    cast = graph([node("Cast", "x", "y", to=TensorProto.BFLOAT16)], [("x", "FP32", ("N", 2))], [("y", "BF16", ("N", 2))])
    text = "max_batch_size: 2\n" + tensors("input", ("x", "FP32", [2])) + tensors("output", ("y", "BF16", [2]))
    model, config = load(tmp_path, cast, text)
    x = np.array([[1.0, -0.375]], np.float32)
    (got,) = run(model, config, share(config, x=x))
    np.testing.assert_array_equal(got["y"].view(ml_dtypes.bfloat16).astype(np.float32), x)


def test_requests_of_one_run_get_their_own_rows_of_the_outputs_they_asked_for(tmp_path: Path) -> None:
    model, config = load(tmp_path, add_sub(), ADD_SUB)
    a, b = np.arange(12, dtype=np.float32).reshape(3, 4), np.ones((3, 4), np.float32)
    first, second = run(model, config, share(config, a=a[:1], b=b[:1]), share(config, "difference", a=a[1:], b=b[1:]))
    np.testing.assert_array_equal(first["sum"], a[:1] + 1)
    np.testing.assert_array_equal(first["difference"], a[:1] - 1)
    np.testing.assert_array_equal(second["difference"], a[1:] - 1)


def test_an_output_nobody_of_the_run_asked_for_is_not_fetched(tmp_path: Path) -> None:
    model, config = load(tmp_path, add_sub(), ADD_SUB)
    x = np.ones((1, 4), np.float32)
    assert [got.keys() for got in run(model, config, share(config, "sum", a=x, b=x))] == [{"sum"}]


def test_answers_keep_their_values_when_the_slot_runs_again(tmp_path: Path) -> None:
    model, config = load(tmp_path, identity("FP32"), same("FP32"))
    slot = model.instances[0].slots[0]
    answers = []
    for value in (1.0, 2.0):
        slot.start([share(config, x=np.full((1, 3), value, np.float32))])
        slot.finish()
        answers.append(slot.answer(0))
    assert all(answer.fresh for answer in answers)
    assert [arrays_of(answer, config)["y"][0, 0] for answer in answers] == [1.0, 2.0]


def test_a_softmax_classifier_agrees_with_numpy(tmp_path: Path) -> None:
    weights = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    nodes = [node("MatMul", "x w", "z"), node("Softmax", "z", "y", axis=-1)]
    onnx_model = graph(nodes, [("x", "FP32", ("N", 4))], [("y", "FP32", ("N", 3))], {"w": weights})
    text = "max_batch_size: 4\n" + tensors("input", ("x", "FP32", [4])) + tensors("output", ("y", "FP32", [3]))
    model, config = load(tmp_path, onnx_model, text)
    x = np.random.default_rng(2).normal(size=(3, 4)).astype(np.float32)
    (got,) = run(model, config, share(config, x=x))
    z = np.exp(x @ weights)
    np.testing.assert_allclose(got["y"], z / z.sum(axis=1, keepdims=True), rtol=1e-5)


def test_point_clouds_of_different_sizes_share_a_run(tmp_path: Path) -> None:
    model, config = load(tmp_path, ragged_sums(), RAGGED)
    clouds = [np.arange(n, dtype=np.float32).reshape(1, n) for n in (3, 1, 5)]
    got = run(model, config, *(share(config, x=cloud) for cloud in clouds))
    assert [y["y"].tolist() for y in got] == [[[3.0]], [[0.0]], [[10.0]]]


def test_scalars_of_a_model_without_batches_have_dims_1(tmp_path: Path) -> None:
    onnx_model = graph([node("Add", "x x", "y")], [("x", "FP32", ())], [("y", "FP32", ())])
    text = tensors("input", ("x", "FP32", [1])) + tensors("output", ("y", "FP32", [1]))
    model, config = load(tmp_path, onnx_model, text)
    (got,) = run(model, config, share(config, x=np.array([2.5], np.float32)))
    np.testing.assert_array_equal(got["y"], [5.0])


def test_reshape_stands_between_the_wire_and_the_model(tmp_path: Path) -> None:
    onnx_model = identity("FP32", ("N", "M", 1, 2))
    text = "max_batch_size: 4\n" + "".join(
        tensors(kind, (name, "FP32", [-1, 2]), extra="reshape { shape: [ -1, 1, 2 ] }")
        for kind, name in (("input", "x"), ("output", "y"))
    )
    model, config = load(tmp_path, onnx_model, text)
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    (got,) = run(model, config, share(config, x=x))
    np.testing.assert_array_equal(got["y"], x)


def test_an_initializer_may_be_an_optional_input(tmp_path: Path) -> None:
    onnx_model = onnx.load_from_string(
        graph([node("Add", "x w", "y")], [("x", "FP32", (2,))], [("y", "FP32", (2,))], {"w": np.ones(2, np.float32)})
    )
    onnx_model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [2]))
    text = (
        tensors("input", ("x", "FP32", [2]))
        + tensors("input", ("w", "FP32", [2]), extra="optional: true")
        + tensors("output", ("y", "FP32", [2]))
    )
    model, config = load(tmp_path, onnx_model.SerializeToString(), text)
    x = np.array([1, 2], np.float32)
    np.testing.assert_array_equal(run(model, config, share(config, x=x))[0]["y"], [2, 3])
    np.testing.assert_array_equal(run(model, config, share(config, x=x, w=x))[0]["y"], [2, 4])


def gather() -> bytes:
    """y = table[x], which fails for an index that is not in the table."""
    table = np.arange(5, dtype=np.float32)
    return graph([node("Gather", "t x", "y")], [("x", "INT64", ("N", 1))], [("y", "FP32", ("N", 1))], {"t": table})


GATHER = "max_batch_size: 8\n" + tensors("input", ("x", "INT64", [1])) + tensors("output", ("y", "FP32", [1]))


def test_one_requests_values_do_not_fail_those_that_share_its_run(tmp_path: Path) -> None:
    model, config = load(tmp_path, gather(), GATHER)
    slot = model.instances[0].slots[0]
    slot.start([share(config, x=np.array([[value]])) for value in (3, 99, 1)])
    slot.finish()
    assert [arrays_of(slot.answer(index), config)["y"].item() for index in (0, 2)] == [3.0, 1.0]
    with pytest.raises(BackendError, match="onnx runtime error 2: Non-zero status code"):
        slot.answer(1)


def test_a_run_that_fails_is_a_failed_run(tmp_path: Path) -> None:
    model, config = load(tmp_path, gather(), GATHER)
    slot = model.instances[0].slots[0]
    slot.start([share(config, x=np.array([[99]]))])
    with pytest.raises(BackendError, match="onnx runtime error 2"):
        slot.finish()
    assert run(model, config, share(config, x=np.array([[2]])))[0]["y"].item() == 2.0


def test_a_string_that_is_no_utf_8_is_that_requests_error(tmp_path: Path) -> None:
    model, config = load(tmp_path, identity("BYTES", ("N", 1)), same("BYTES", dims=(1,)))
    slot = model.instances[0].slots[0]
    for texts, wrong in (((b"a", b"\xff"), 1), ((b"\xfe",), 0)):
        slot.start([share(config, x=np.array([[text]], object)) for text in texts])
        slot.finish()
        with pytest.raises(InvalidRequestError, match="not UTF-8"):
            slot.answer(wrong)
    assert model.instances[0].in_service


def test_an_output_with_too_few_rows_is_an_error_in_tritons_words(tmp_path: Path) -> None:
    first = graph(
        [node("Slice", "x start stop", "y")],
        [("x", "FP32", ("N", 1))],
        [("y", "FP32", ("M", 1))],
        {"start": np.array([0]), "stop": np.array([1])},
    )
    model, config = load(tmp_path, first, same("FP32", dims=(1,)))
    slot = model.instances[0].slots[0]
    slot.start([share(config, x=np.ones((2, 1), np.float32))])
    slot.finish()
    with pytest.raises(UnsupportedError, match="failed to split the output tensor 'y'"):
        slot.answer(0)
