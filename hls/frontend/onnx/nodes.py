# SPDX-License-Identifier: Apache-2.0
"""An ONNX graph whose constants are folded, and the attributes of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

#: operators whose results are their inputs
PASSING = ("Identity", "Dropout", "Cast")


@dataclass(frozen=True)
class OnnxGraph:
    """An ONNX graph whose constants are folded.

    Attributes:
        inputs, outputs: names of tensors.
        nodes: the nodes whose results depend on the inputs and are read, in order; groups of nodes that are one function are
            one (patterns.py).
        names: the name "<operator>_<n>" of each node.
        origins: by these names, the nodes' own in the file, or the name of the result for a node without one.
        constants: the numbers of each constant tensor, by name.
        shapes: the shape of each tensor, by name, with the batch, which is 1 where the file leaves it open.
        session: an onnxruntime session of the whole file.
        batch: the rows of one run of the session; 0 for any number.
        types: hls4ml's type of each tensor that a quantiser made (see quantisers.py), or of a constant behind a
            DequantizeLinear.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Any, ...]
    names: tuple[str, ...]
    origins: dict[str, str]
    constants: dict[str, Array]
    shapes: dict[str, tuple[int, ...]]
    opset: int
    session: Any
    batch: int
    types: dict[str, str] = field(default_factory=dict)

    def readers(self, tensor: str) -> list[Any]:
        """Return the nodes that read a tensor, in order."""
        return [node for node in self.nodes if tensor in node.input]

    def predict(self, x: Sequence[Array]) -> list[Array]:
        """Return onnxruntime's outputs, (rows, ...) each.

        Args:
            x: an array (rows, ...) for each input, in the file's layout.
        """
        rows, feed = len(x[0]), dict(zip(self.inputs, x, strict=True))
        if not self.batch:
            with suppress(Exception):  # a shape in the file may be fixed to one row; onnxruntime's errors have no common class
                answers = [np.asarray(y) for y in self.session.run(list(self.outputs), feed)]
                if all(y.shape[:1] == (rows,) for y in answers):
                    return answers
        return self._by_runs(feed, rows, self.batch or 1)

    def _by_runs(self, feed: dict[str, Array], rows: int, batch: int) -> list[Array]:
        """Run `batch` rows at a time; the last run is padded with copies of its first row."""
        starts = range(0, rows, batch)
        picked = [[*range(start, min(start + batch, rows)), *[start] * (start + batch - rows)] for start in starts]
        runs = [
            self.session.run(list(self.outputs), {name: part[rows_of] for name, part in feed.items()}) for rows_of in picked
        ]
        return [np.concatenate([np.asarray(y) for y in side])[:rows] for side in zip(*runs, strict=True)]


def attributes(node: Any) -> dict[str, Any]:
    """Return a node's attributes by name, with texts decoded."""
    from onnx import helper

    values = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    return {key: value.decode(errors="replace") if isinstance(value, bytes) else value for key, value in values.items()}
