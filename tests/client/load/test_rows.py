# SPDX-License-Identifier: Apache-2.0
"""Random rows for a model as a server describes it."""

from __future__ import annotations

import numpy as np
import pytest

from hypersonic.client import ModelSpec, TensorSpec
from hypersonic.client.batches import as_inputs
from hypersonic.client.load import LoadError, random_requests
from hypersonic.client.load.rows import default_count
from hypersonic.client.messages.elements import DTYPES, to_buffer


def model(*inputs: TensorSpec, max_batch_size: int = 8) -> ModelSpec:
    return ModelSpec("m", "", ("1",), inputs, (), max_batch_size)


@pytest.mark.parametrize("datatype", DTYPES)
def test_rows_of_each_datatype_are_what_the_client_sends_without_conversion(datatype: str) -> None:
    spec = model(TensorSpec("x", datatype, (2, 3)))
    requests = random_requests(spec, 5, count=3)
    assert [x["x"].shape for x in requests] == [(5, 2, 3)] * 3
    for request in requests:
        assert as_inputs(spec, request)["x"] is request["x"]
        assert to_buffer("x", datatype, request["x"]) is not None


def test_strings_are_ascii() -> None:
    ((row,),) = random_requests(model(TensorSpec("x", "BYTES", (1,))), 1, count=1)[0]["x"]
    assert len(row) == 16
    assert row.decode("ascii").isalnum()


def test_the_seed_decides_the_rows_and_requests_differ() -> None:
    spec = model(TensorSpec("x", "FP32", (4,)))
    first, again, other = (random_requests(spec, 2, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first[0]["x"], again[0]["x"])
    assert (first[0]["x"] != other[0]["x"]).all()
    assert (first[0]["x"] != first[1]["x"]).all()


@pytest.mark.parametrize(("rows", "count"), [(1, 16), (1000, 1), (100, 4)])
def test_large_requests_are_fewer_so_that_they_fit_into_memory(rows: int, count: int) -> None:
    """A row of 0.6 MB."""
    assert default_count(model(TensorSpec("x", "FP32", (3, 224, 224)), max_batch_size=1000), rows) == count


def test_optional_inputs_are_left_out() -> None:
    spec = model(TensorSpec("x", "FP32", (4,)), TensorSpec("y", "FP32", (4,), optional=True))
    assert set(random_requests(spec, 1)[0]) == {"x"}


def test_a_model_without_batches_gets_the_whole_tensor() -> None:
    spec = model(TensorSpec("x", "INT32", (4, -1)), max_batch_size=0)
    assert random_requests(spec, 1, shapes={"x": (4, 2)})[0]["x"].shape == (4, 2)


@pytest.mark.parametrize(
    ("rows", "shapes", "message"),
    [
        (9, {"x": (4, 2)}, "a request has 9 rows; model 'm' takes 1 to 8 rows in a request"),
        (0, {"x": (4, 2)}, "takes 1 to 8 rows"),
        (1, {}, r"input 'x' has the shape \(4, -1\), where -1 is any length: a shape has to be given"),
        (1, {"x": (3, 2)}, r"the shape of input 'x' is \(3, 2\), expected \(4, -1\)"),
        (1, {"x": (4,)}, r"the shape of input 'x' is \(4,\), expected \(4, -1\)"),
        (1, {"z": (4,)}, "model 'm' has no input 'z', only x"),
    ],
)
def test_rows_that_the_model_does_not_take_are_refused(rows: int, shapes: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(LoadError, match=message):
        random_requests(model(TensorSpec("x", "FP32", (4, -1))), rows, shapes=shapes)
