# SPDX-License-Identifier: Apache-2.0
"""Classification: the strings a real tritonserver 2.51 answered to the same values, ties and NaN apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.datatype import DATATYPES
from hypersonic.server.core.inference.answer import Answer, Output
from hypersonic.server.core.inference.classification import classify, with_labels
from hypersonic.server.errors import InvalidRequestError, ModelLoadError
from tests.server.onnx_graphs import arrays_of, config_of, tensors


def model(datatype: str, dims: Sequence[int] = (-1,), max_batch_size: int = 8, extra: str = "") -> ModelConfig:
    text = tensors("input", ("x", datatype, dims)) + tensors("output", ("y", datatype, dims), extra=extra)
    return config_of(f"max_batch_size: {max_batch_size}\n{text}")


def best(array: np.ndarray, k: int, datatype: str, config: ModelConfig | None = None) -> list[object]:
    """The classes of an array, as text."""
    config = config or model(datatype)
    data = array.tobytes()
    half = len(data) // 2
    classes = classify(Output(0, datatype, array.shape, (data[:half], memoryview(data)[half:]), len(data)), k, config)
    assert classes.datatype == "BYTES"
    texts: list[object] = arrays_of(Answer((classes,)), config)["y"].tolist()
    return texts


VALUES = [0.1, 1e-8, 3, np.pi * 1e9, -2.5, 1e20, 123456.789, 0.333333343]


def test_floats_have_six_decimals_and_as_many_digits_as_they_are_large() -> None:
    assert best(np.array([VALUES], np.float32), 8, "FP32") == [
        [
            *(b"100000002004087734272.000000:5", b"3141592576.000000:3", b"123456.789062:6", b"3.000000:2"),
            *(b"0.333333:7", b"0.100000:0", b"0.000000:1", b"-2.500000:4"),
        ]
    ]
    assert best(np.array([[1e15, 123456789.0]]), 2, "FP64") == [[b"1000000000000000.000000:0", b"123456789.000000:1"]]


@pytest.mark.parametrize("datatype", [name for name in DATATYPES if "INT" in name])
def test_integers_are_exact(datatype: str) -> None:
    dtype = np.dtype(DATATYPES[datatype].numpy)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    assert best(np.array([[low, 1, high]], dtype), 3, datatype) == [
        [f"{high}:2".encode(), b"1:1", f"{low}:0".encode()],
    ]


def test_k_is_at_most_the_number_of_classes() -> None:
    array = np.array([[1, 5, 3], [9, 7, 8]], np.int32)
    assert best(array, 2, "INT32") == [[b"5:1", b"3:2"], [b"9:0", b"8:2"]]
    assert best(array, 2**31, "INT32") == [[b"5:1", b"3:2", b"1:0"], [b"9:0", b"8:2", b"7:1"]]


def test_a_row_of_several_dimensions_is_numbered_flat() -> None:
    array = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    config = model("FP32", [-1, -1])
    assert best(array, 2, "FP32", config) == [[b"5.000000:5", b"4.000000:4"], [b"11.000000:5", b"10.000000:4"]]


def test_a_model_without_batches_answers_one_row() -> None:
    assert best(np.array([3, 1, 2], np.float32), 2, "FP32", model("FP32", max_batch_size=0)) == [b"3.000000:0", b"2.000000:2"]


def test_equal_values_come_in_the_order_of_their_indices_and_nan_counts_as_the_smallest() -> None:
    assert best(np.array([[1, 2, 1, 2]], np.uint8), 4, "UINT8") == [[b"2:1", b"2:3", b"1:0", b"1:2"]]
    array = np.array([[np.nan, 1, np.inf, -np.inf, -0.0]], np.float32)
    assert best(array, 5, "FP32") == [[b"inf:2", b"1.000000:1", b"-0.000000:4", b"nan:0", b"-inf:3"]]


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=40), st.integers(1, 50))
def test_the_best_are_the_largest(values: list[float], k: int) -> None:
    (texts,) = best(np.array([values], np.float32), k, "FP32")
    assert isinstance(texts, list)
    indices = [int(text.split(b":")[1]) for text in texts]
    expected = sorted(range(len(values)), key=lambda index: (-values[index], index))[:k]
    assert indices == expected


@pytest.mark.parametrize("datatype", ["BOOL", "FP16", "BF16", "BYTES"])
def test_other_datatypes_are_refused_in_tritons_words(datatype: str) -> None:
    text = f"class result not available for output due to unsupported type '{datatype}'"
    with pytest.raises(InvalidRequestError, match=text):
        classify(Output(0, datatype, (1, 1), (b"\0" * 4,), 4), 1, model(datatype))


def labelled(tmp_path: Path, data: bytes) -> ModelConfig:
    (tmp_path / "labels.txt").write_bytes(data)
    return with_labels(model("INT32", extra='label_filename: "labels.txt"'), tmp_path)


def test_a_label_stands_behind_its_index(tmp_path: Path) -> None:
    config = labelled(tmp_path, b"cat\ndog\n\nfish  \r\n\xffowl\n")
    assert best(np.array([[5, 4, 3, 2, 1, 0]], np.int32), 6, "INT32", config) == [
        [b"5:0:cat", b"4:1:dog", b"3:2", b"2:3:fish  \r", b"1:4:\xffowl", b"0:5"]
    ]


def test_a_label_file_that_is_not_there_or_leads_out_or_is_too_long_is_refused(tmp_path: Path) -> None:
    config = model("INT32", extra='label_filename: "labels.txt"')
    with pytest.raises(ModelLoadError, match="failed to open text file for read"):
        with_labels(config, tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "secret").write_text("s")
    (tmp_path / "model" / "labels.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(ModelLoadError, match="leads out of the model's directory"):
        with_labels(config, tmp_path / "model")
    with pytest.raises(ModelLoadError, match="has more than"):
        labelled(tmp_path, b"a" * (16 << 20) + b"b")


def test_a_config_without_label_files_stays_as_it_is(tmp_path: Path) -> None:
    config = model("INT32")
    assert with_labels(config, tmp_path) is config
