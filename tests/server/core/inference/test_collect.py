# SPDX-License-Identifier: Apache-2.0
"""Shares to arrays and back: what goes in together comes out apart, whatever was batched with it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypersonic.server.core.config.schema import ModelConfig, TensorConfig
from hypersonic.server.core.inference.answer import Answer, Output
from hypersonic.server.core.inference.collect import Array, collect, reshape_from_model, reshape_to_model, split, unpack_strings
from hypersonic.server.core.inference.pending import PendingRequest, Share
from hypersonic.server.core.inference.request import CheckedRequest
from hypersonic.server.core.inference.strings import pack_strings
from hypersonic.server.errors import BackendError, InvalidRequestError, UnsupportedError
from tests.server.onnx_graphs import arrays_of, config_of, share, tensors

NUMBERS = ["UINT8", "UINT16", "INT64", "FP16", "FP32", "FP64"]
RAGGED = (
    "max_batch_size: 16\n"
    + tensors("input", ("x", "FP32", [-1]), extra="allow_ragged_batch: true")
    + tensors("output", ("y", "FP32", [1]))
)


def config(datatype: str, dims: Sequence[int] = (-1,), max_batch_size: int = 64) -> ModelConfig:
    text = tensors("input", ("x", datatype, dims)) + tensors("output", ("y", datatype, dims))
    return config_of(f"max_batch_size: {max_batch_size}\n{text}")


def apart(array: Array, shares: Sequence[Share], config: ModelConfig) -> list[np.ndarray]:
    """Each share's part of output y, which every share has."""
    outputs = split(array, 0, shares, config)
    assert all(isinstance(output, Output) for output in outputs)
    return [arrays_of(Answer((output,)), config)["y"] for output in outputs if isinstance(output, Output)]


@given(st.sampled_from(NUMBERS), st.lists(st.integers(1, 8), min_size=1, max_size=6), st.integers(1, 5))
def test_rows_go_in_one_after_another_and_come_back_to_whom_they_belong(datatype: str, rows: list[int], columns: int) -> None:
    model = config(datatype)
    dtype = {"FP16": "f2", "FP32": "f4", "FP64": "f8"}.get(datatype) or datatype.lower()
    given = [np.random.default_rng(i).integers(0, 200, (n, columns)).astype(dtype) for i, n in enumerate(rows)]
    shares = [share(model, x=x) for x in given]
    together = collect(shares, model)["x"]
    np.testing.assert_array_equal(together, np.concatenate(given))
    for got, sent in zip(apart(together, shares, model), given, strict=True):
        np.testing.assert_array_equal(got, sent)


@given(st.lists(st.lists(st.binary(max_size=9), min_size=2, max_size=2), min_size=1, max_size=5))
def test_strings_survive_being_batched_whatever_bytes_they_are(rows: list[list[bytes]]) -> None:
    model = config("BYTES", [2])
    shares = [share(model, x=objects([row])) for row in rows]
    together = collect(shares, model)["x"]
    assert together.tolist() == rows
    assert [got.tolist() for got in apart(together, shares, model)] == [[row] for row in rows]


def objects(rows: Sequence[Sequence[bytes]]) -> np.ndarray:
    array = np.empty((len(rows), len(rows[0])), object)
    array[:] = rows
    return array


def test_one_whole_request_is_not_copied() -> None:
    model = config("FP32", [4])
    sent = np.arange(8, dtype=np.float32)
    request = CheckedRequest("", 2, (sent.view(np.uint8).data,), ((2, 4),), (0,))
    (array,) = collect([Share(PendingRequest(request, lambda *_: None, 0), 0, 2)], model).values()
    assert np.shares_memory(array, sent)


@pytest.mark.parametrize("offset", range(8))
def test_floats_at_any_address_become_aligned(offset: int) -> None:
    model = config("FP64", [2])
    data = bytearray(offset) + np.array([1.5, -2.5]).tobytes()
    request = CheckedRequest("", 1, (memoryview(data)[offset:],), ((1, 2),), (0,))
    array = collect([Share(PendingRequest(request, lambda *_: None, 0), 0, 1)], model)["x"]
    assert array.flags.aligned
    np.testing.assert_array_equal(array, [[1.5, -2.5]])


def test_a_share_of_a_cut_request_has_its_rows_only() -> None:
    model = config("FP32", [2])
    sent = np.arange(10, dtype=np.float32).reshape(5, 2)
    whole = share(model, x=sent)
    cut = whole._replace(first_row=1, rows=3)
    np.testing.assert_array_equal(collect([cut], model)["x"], sent[1:4])


def test_a_model_without_batches_gets_the_shape_as_sent() -> None:
    model = config("INT32", [-1, 2], max_batch_size=0)
    sent = np.arange(6, dtype=np.int32).reshape(3, 2)
    one = share(model, x=sent)
    assert collect([one], model)["x"].shape == (3, 2)
    np.testing.assert_array_equal(apart(sent, [one], model)[0], sent)


def test_an_optional_input_left_out_is_not_there() -> None:
    text = "max_batch_size: 4\n" + tensors("input", ("x", "FP32", [1])) + tensors("output", ("y", "FP32", [1]))
    model = config_of(text + tensors("input", ("o", "FP32", [1]), extra="optional: true"))
    x = np.ones((1, 1), np.float32)
    assert collect([share(model, x=x)], model).keys() == {"x"}
    assert collect([share(model, x=x, o=x)], model).keys() == {"x", "o"}


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 6)), min_size=1, max_size=5))
def test_ragged_inputs_are_flat_in_the_order_of_the_requests(shapes: list[tuple[int, int]]) -> None:
    model = config_of(RAGGED)
    given = [np.full(shape, i, np.float32) for i, shape in enumerate(shapes)]
    array = collect([share(model, x=x) for x in given], model)["x"]
    np.testing.assert_array_equal(array, np.concatenate([x.reshape(-1) for x in given]))


#: two requests: [2, 3] and [1, 4]; counts 6 and 4
BATCH_INPUTS = {
    "BATCH_ELEMENT_COUNT": [6, 4],
    "BATCH_ACCUMULATED_ELEMENT_COUNT": [6, 10],
    "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO": [0, 6, 10],
    "BATCH_ITEM_SHAPE": [[3], [3], [4]],
    "BATCH_ITEM_SHAPE_FLATTEN": [3, 3, 4],
}


@pytest.mark.parametrize("datatype", ["INT32", "FP32"])
@pytest.mark.parametrize("kind", BATCH_INPUTS)
def test_batch_inputs_say_how_the_batch_is_made_up(kind: str, datatype: str) -> None:
    model = config_of(batch_input(kind, datatype))
    array = collect([share(model, x=np.zeros(s, np.float32)) for s in ((2, 3), (1, 4))], model)["shape"]
    assert array.dtype == {"INT32": np.int32, "FP32": np.float32}[datatype]
    np.testing.assert_array_equal(array, BATCH_INPUTS[kind])


def batch_input(kind: str, datatype: str) -> str:
    return f'{RAGGED} batch_input [ {{ kind: {kind} target_name: "shape" data_type: TYPE_{datatype} source_input: "x" }} ]'


def test_the_largest_element_count_is_a_shape() -> None:
    model = config_of(batch_input("BATCH_MAX_ELEMENT_COUNT_AS_SHAPE", "FP32"))
    array = collect([share(model, x=np.zeros(s, np.float32)) for s in ((2, 3), (1, 4))], model)["shape"]
    assert (array.shape, array.dtype) == ((6,), np.dtype(np.float32))


def test_item_shapes_of_several_dimensions_are_those_of_the_protocols_example() -> None:
    text = RAGGED.replace("dims: [-1]", "dims: [-1, -1]")
    for kind, expected in (
        ("BATCH_ITEM_SHAPE", [[3, 1], [3, 1], [2, 2]]),
        ("BATCH_ITEM_SHAPE_FLATTEN", [3, 1, 3, 1, 2, 2]),
    ):
        batch = f'batch_input [ {{ kind: {kind} target_name: "shape" data_type: TYPE_INT32 source_input: "x" }} ]'
        model = config_of(text + batch)
        shares = [share(model, x=np.zeros(s, np.float32)) for s in ((2, 3, 1), (1, 2, 2))]
        np.testing.assert_array_equal(collect(shares, model)["shape"], expected)


SCATTER = (
    "max_batch_size: 16\n"
    + tensors("input", ("x", "FP32", [-1, 2]), extra="allow_ragged_batch: true")
    + tensors("output", ("y", "FP32", [-1, 3]))
    + 'batch_output [ { kind: BATCH_SCATTER_WITH_INPUT_SHAPE target_name: "y" source_input: "x" } ]'
)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=5))
def test_a_scattered_output_takes_its_variable_dimensions_from_the_input(shapes: list[tuple[int, int]]) -> None:
    model = config_of(SCATTER)
    shares = [share(model, x=np.zeros((*shape, 2), np.float32)) for shape in shapes]
    wanted = [np.random.default_rng(i).random((*shape, 3), np.float32) for i, shape in enumerate(shapes)]
    flat = np.concatenate([array.reshape(-1) for array in wanted])
    for got, expected in zip(apart(flat.reshape(-1, 3), shares, model), wanted, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_a_scattered_output_that_is_too_small_fails_only_those_it_does_not_reach() -> None:
    model = config_of(SCATTER)
    shares = [share(model, x=np.zeros((1, 2, 2), np.float32)) for _ in range(2)]
    first, second = split(np.zeros((3, 3), np.float32), 0, shares, model)
    assert isinstance(first, Output)
    assert isinstance(second, BackendError)


def test_an_output_with_too_few_rows_fails_those_it_does_not_reach_in_tritons_words() -> None:
    model = config("FP32", [1])
    shares = [share(model, x=np.zeros((2, 1), np.float32)) for _ in range(2)]
    first, second = split(np.zeros((3, 1), np.float32), 0, shares, model)
    assert isinstance(first, Output)
    assert isinstance(second, UnsupportedError)
    assert "failed to split the output tensor 'y' in responses: expected batch size of atleast 4 in model output, got 3" in str(
        second
    )


def test_a_scalar_where_rows_are_expected_is_an_error() -> None:
    model = config("FP32", [1])
    (error,) = split(np.zeros((), np.float32), 0, [share(model, x=np.zeros((2, 1), np.float32))], model)
    assert isinstance(error, BackendError)


@pytest.mark.parametrize(
    ("dims", "reshape", "sent", "seen"),
    [
        ((1,), (), (1,), ()),
        ((4, 2), (8,), (4, 2), (8,)),
        ((-1, 1), (-1,), (7, 1), (7,)),
        ((2, -1, 2, -1), (2, -1, 1, 2, -1), (2, 5, 2, 6), (2, 5, 1, 2, 6)),
    ],
)
def test_reshape_goes_in_and_comes_back(
    dims: tuple[int, ...], reshape: tuple[int, ...], sent: tuple[int, ...], seen: tuple[int, ...]
) -> None:
    spec = TensorConfig("x", "FP32", dims, reshape=reshape)
    assert reshape_to_model(sent, spec) == seen
    assert reshape_from_model(seen, spec) == sent


def test_reshape_reaches_the_arrays() -> None:
    text = tensors("input", ("x", "FP32", [1]), extra="reshape { shape: [ ] }")
    model = config_of("max_batch_size: 4\n" + text + tensors("output", ("y", "FP32", [1]), extra="reshape { shape: [ ] }"))
    one = share(model, x=np.array([[1], [2]], np.float32))
    array = collect([one], model)["x"]
    assert array.shape == (2,)
    np.testing.assert_array_equal(apart(array, [one], model)[0], [[1], [2]])


@given(st.lists(st.binary(max_size=20)))
def test_strings_are_read_as_they_are_written(elements: list[bytes]) -> None:
    assert unpack_strings(memoryview(pack_strings(elements)), "x") == elements


@given(st.binary(min_size=1, max_size=30))
def test_any_bytes_are_strings_or_refused(data: bytes) -> None:
    try:
        elements = unpack_strings(memoryview(data), "x")
    except InvalidRequestError:
        return
    assert pack_strings(elements) == data
