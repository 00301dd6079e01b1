# SPDX-License-Identifier: Apache-2.0
"""Triton's classification extension: an output as its k best classes, "<value>:<index>[:<label>]".

The formats are Triton's: floats with six decimals, integers unchanged, and a label if the output's label file has one for that
index. Equal values are ordered by index and NaN counts as the smallest value; Triton leaves both to its sort.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.server.core.config.files import read_model_file
from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.datatype import DATATYPES
from hypersonic.server.core.inference.answer import Output
from hypersonic.server.core.inference.strings import pack_strings
from hypersonic.server.core.links import Links
from hypersonic.server.errors import InvalidRequestError

#: enough for a million classes with short names
_MAX_LABEL_BYTES = 16 << 20
#: the datatypes that Triton can classify: not BOOL, FP16, BF16 or BYTES
_DATATYPES = frozenset(name for name, datatype in DATATYPES.items() if datatype.numpy.strip("<")[0] in "iu") - {"BF16"} | {
    "FP32",
    "FP64",
}


def with_labels(config: ModelConfig, model: Path, links: Links = Links()) -> ModelConfig:  # noqa: B008 - immutable
    """Return the configuration with the labels from its outputs' label files.

    Args:
        model: the model's directory.

    Raises:
        ModelLoadError: If a file is missing, is longer than 16 MiB, or is a link that leads outside the permitted directories.
    """
    files = {tensor.name: tensor.label_filename for tensor in config.outputs if tensor.label_filename}
    labels = {name: tuple(_lines(read_model_file(model, file, _MAX_LABEL_BYTES, links))) for name, file in files.items()}
    return replace(config, labels=labels) if labels else config


def _lines(data: bytes) -> list[bytes]:
    """Return the lines of a label file: line i is the label of index i. An empty line means no label."""
    lines = data.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def classify(output: Output, k: int, config: ModelConfig) -> Output:
    """Return the k (at most all) largest values of each row, as a BYTES tensor of shape [rows, k], or [k] without batching.

    A row's elements are numbered in C order, whatever its shape.

    Args:
        k: at least 1.

    Raises:
        InvalidRequestError: With Triton's text, for a datatype that cannot be classified.
    """
    if output.datatype not in _DATATYPES:
        raise InvalidRequestError(f"class result not available for output due to unsupported type '{output.datatype}'")
    rows = output.shape[0] if config.max_batch_size else 1
    classes = prod(output.shape[1:] if config.max_batch_size else output.shape)
    array = np.frombuffer(b"".join(output.chunks), DATATYPES[output.datatype].numpy).reshape(rows, classes)
    k = min(k, classes)
    labels = config.labels.get(config.outputs[output.position].name, ())
    data = pack_strings(text for row in array for text in _classes(row, k, labels))
    shape = (rows, k) if config.max_batch_size else (k,)
    return Output(output.position, "BYTES", shape, (data,), len(data))


def _classes(row: NDArray[Any], k: int, labels: Sequence[bytes]) -> Iterator[bytes]:
    exact = row.dtype.kind in "iu"
    for index in _best(row, k):
        value = str(row[index]) if exact else f"{row[index]:f}"
        label = labels[index] if index < len(labels) else b""
        yield f"{value}:{index}".encode() + (b":" + label if label else b"")


def _best(row: NDArray[Any], k: int) -> list[int]:
    """Return the indices of the k largest values, the largest first."""
    key = np.where(np.isnan(row), -np.inf, row) if row.dtype.kind == "f" else row
    # a stable ascending sort of the reversed row, read backwards: descending, with equal values ordered by index
    ascending = np.argsort(key[::-1], kind="stable")
    indices: list[int] = (len(row) - 1 - ascending[::-1][:k]).tolist()
    return indices
