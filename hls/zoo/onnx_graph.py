# SPDX-License-Identifier: Apache-2.0
"""ONNX graphs built node by node. This is the zoo's only module that imports the onnx package (part of the build extra).

Each weight is drawn from the seed and its own name. A network and its parts, exported as separate models, therefore have the
same weights.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: versions of ONNX 1.15, which every onnxruntime since 1.17 reads
_IR_VERSION = 9
_OPSET = 17

#: sizes of a tensor's dimensions; a string names a dimension that varies from request to request
Dims = Sequence[int | str]


class Graph:
    """An ONNX graph under construction. Tensors are strings: their names. Nodes keep the order in which they are added."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._nodes: list[Any] = []
        self._tensors: dict[str, NDArray[Any]] = {}

    def node(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Add a node with one output and return the output's name.

        Args:
            kind: the ONNX operator.
            name: of node and output; "" generates one from `kind` and a number.
        """
        import onnx.helper

        output = name or f"{kind.lower()}_{len(self._nodes)}"
        self._nodes.append(onnx.helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def top(self, values: str, count: str) -> str:
        """Return the indices (..., count) of the largest values along the last axis, largest first.

        Args:
            count: INT64 [1].
        """
        import onnx.helper

        indices = f"topk_{len(self._nodes)}"
        outputs = [f"{indices}_values", indices]
        self._nodes.append(onnx.helper.make_node("TopK", [values, count], outputs, name=indices, axis=-1))
        return indices

    def integers(self, *values: int) -> str:
        """Return a constant INT64 [len(values)], for sizes and axes; not counted as a parameter of the network."""
        return self._tensor(f"integers_{'_'.join(map(str, values))}", np.array(values, np.int64))

    def integer(self, value: int) -> str:
        """Return a constant INT64 scalar (shape [])."""
        return self._tensor(f"integer_{value}", np.array(value, np.int64))

    def size(self, x: str, axis: int) -> str:
        """Return the tensor's size along an axis as INT64 [1], computed when the graph runs."""
        return self.node("Shape", x, start=axis, end=axis + 1)

    def scalar(self, value: float) -> str:
        """Return a constant FP32 [1]; equal values share one tensor."""
        return self._tensor(f"scalar_{value:g}", np.array([value], np.float32))

    def uniform(self, name: str, shape: tuple[int, ...], low: float, high: float) -> str:
        """Return a constant FP32 tensor, uniform between low and high, drawn from the seed and the name."""
        rng = np.random.default_rng([self._seed, zlib.crc32(name.encode())])
        return self._tensor(name, rng.uniform(low, high, shape).astype(np.float32))

    def _tensor(self, name: str, value: NDArray[Any]) -> str:
        self._tensors[name] = value
        return name

    # ---- layers ----------------------------------------------------------------------------------------------------------

    def convolution(self, x: str, name: str, sizes: tuple[int, int], window: Sequence[int], *, bias: bool) -> str:
        """Convolve x (n, sizes[0], ...) to (n, sizes[1], ...) without padding, in the 1 or 2 dimensions of `window`."""
        fan_in = sizes[0] * int(np.prod(window))
        weights = [self.uniform(f"{name}/kernel", (sizes[1], sizes[0], *window), *_he(fan_in))]
        if bias:
            weights.append(self.uniform(f"{name}/bias", (sizes[1],), -0.1, 0.1))
        return self.node("Conv", x, *weights, name=name)

    def normalised(self, x: str, name: str, channels: int, epsilon: float) -> str:
        """Batch-normalise the channels (x's second dimension) with drawn gamma, beta, mean and variance."""
        ranges = {"gamma": (0.8, 1.2), "beta": (-0.1, 0.1), "mean": (-0.1, 0.1), "variance": (0.8, 1.2)}
        vectors = [self.uniform(f"{name}/{field}", (channels,), *limits) for field, limits in ranges.items()]
        return self.node("BatchNormalization", x, *vectors, name=name, epsilon=epsilon)

    def dense(self, x: str, name: str, sizes: tuple[int, int], output: str = "") -> str:
        """Apply a dense layer: x (n, sizes[0]) -> (n, sizes[1]).

        Args:
            output: the tensor's name; "" uses the layer's name.
        """
        kernel = self.uniform(f"{name}/kernel", sizes, *_he(sizes[0]))
        bias = self.uniform(f"{name}/bias", (sizes[1],), -0.1, 0.1)
        return self.node("Gemm", x, kernel, bias, name=output or name)

    # ---- the model -------------------------------------------------------------------------------------------------------

    def model(self, name: str, inputs: Mapping[str, Dims], outputs: Mapping[str, Dims]) -> bytes:
        """Return the content of model.onnx, the same bytes for the same graph. All inputs and outputs are FP32.

        Raises ValidationError or InferenceError of the onnx package if the graph is not valid.
        """
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper

        sides = [
            [onnx.helper.make_tensor_value_info(tensor, onnx.TensorProto.FLOAT, list(dims)) for tensor, dims in side.items()]
            for side in (inputs, outputs)
        ]
        constants = [onnx.numpy_helper.from_array(value, key) for key, value in self._tensors.items()]
        graph = onnx.helper.make_graph(self._nodes, name, *sides, constants)
        opsets = [onnx.helper.make_opsetid("", _OPSET)]
        model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="hypersonic")
        onnx.checker.check_model(model, full_check=True)
        content: bytes = model.SerializeToString(deterministic=True)
        return content


def _he(fan_in: int) -> tuple[float, float]:
    """Return the range of He's uniform initialisation, which keeps the width of activations through ReLU layers."""
    limit = float(np.sqrt(6.0 / fan_in))
    return -limit, limit
