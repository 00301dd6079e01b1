# SPDX-License-Identifier: Apache-2.0
"""ONNX graphs of the zoo, node by node. The only file of the zoo that knows the onnx package, which is of the build extra.

Each weight is drawn from the seed and its own name, so a network and its parts published as models of their own agree.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: of ONNX 1.15, read by every onnxruntime since 1.17
_IR_VERSION = 9
_OPSET = 17

#: sizes of a tensor's dimensions; a name stands for one that varies from request to request
Dims = Sequence[int | str]


class Graph:
    """Nodes and weights, in the order they are added; tensors are known by their names."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._nodes: list[Any] = []
        self._tensors: dict[str, NDArray[Any]] = {}

    def node(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Add a node with one output and return the output's name. kind: ONNX's. name: "" takes a number."""
        import onnx.helper

        output = name or f"{kind.lower()}_{len(self._nodes)}"
        self._nodes.append(onnx.helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def top(self, values: str, count: str) -> str:
        """Indices (..., count) of the largest along the last axis, the largest first; count: INT64 [1]."""
        import onnx.helper

        indices = f"topk_{len(self._nodes)}"
        outputs = [f"{indices}_values", indices]
        self._nodes.append(onnx.helper.make_node("TopK", [values, count], outputs, name=indices, axis=-1))
        return indices

    def integers(self, *values: int) -> str:
        """INT64 [len(values)]: sizes and axes, no parameters of the network."""
        return self._tensor(f"integers_{'_'.join(map(str, values))}", np.array(values, np.int64))

    def integer(self, value: int) -> str:
        """INT64 []."""
        return self._tensor(f"integer_{value}", np.array(value, np.int64))

    def size(self, x: str, axis: int) -> str:
        """INT64 [1]: the tensor's size along an axis, known only when it runs."""
        return self.node("Shape", x, start=axis, end=axis + 1)

    def scalar(self, value: float) -> str:
        """FP32 [1], one and the same for equal values."""
        return self._tensor(f"scalar_{value:g}", np.array([value], np.float32))

    def uniform(self, name: str, shape: tuple[int, ...], low: float, high: float) -> str:
        """FP32 between low and high, drawn from the seed and the name."""
        rng = np.random.default_rng([self._seed, zlib.crc32(name.encode())])
        return self._tensor(name, rng.uniform(low, high, shape).astype(np.float32))

    def _tensor(self, name: str, value: NDArray[Any]) -> str:
        self._tensors[name] = value
        return name

    # ---- layers ----------------------------------------------------------------------------------------------------------

    def convolution(self, x: str, name: str, sizes: tuple[int, int], window: Sequence[int], *, bias: bool) -> str:
        """x (n, sizes[0], ...) -> (n, sizes[1], ...), no padding; 1 or 2 dimensions, as many as the window has."""
        fan_in = sizes[0] * int(np.prod(window))
        weights = [self.uniform(f"{name}/kernel", (sizes[1], sizes[0], *window), *_he(fan_in))]
        if bias:
            weights.append(self.uniform(f"{name}/bias", (sizes[1],), -0.1, 0.1))
        return self.node("Conv", x, *weights, name=name)

    def normalised(self, x: str, name: str, channels: int, epsilon: float) -> str:
        """Batch normalisation of the channels, x's second dimension, by its four vectors, as a trained network has them."""
        ranges = {"gamma": (0.8, 1.2), "beta": (-0.1, 0.1), "mean": (-0.1, 0.1), "variance": (0.8, 1.2)}
        vectors = [self.uniform(f"{name}/{field}", (channels,), *limits) for field, limits in ranges.items()]
        return self.node("BatchNormalization", x, *vectors, name=name, epsilon=epsilon)

    def dense(self, x: str, name: str, sizes: tuple[int, int], output: str = "") -> str:
        """x (n, sizes[0]) -> (n, sizes[1]). output: the tensor's name, "" for the layer's."""
        kernel = self.uniform(f"{name}/kernel", sizes, *_he(sizes[0]))
        bias = self.uniform(f"{name}/bias", (sizes[1],), -0.1, 0.1)
        return self.node("Gemm", x, kernel, bias, name=output or name)

    # ---- the model -------------------------------------------------------------------------------------------------------

    def model(self, name: str, inputs: Mapping[str, Dims], outputs: Mapping[str, Dims]) -> bytes:
        """The file's content, the same bytes for the same graph; all inputs and outputs are FP32."""
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
    """He's uniform range: activations keep their width through layers of rectifiers."""
    limit = float(np.sqrt(6.0 / fan_in))
    return -limit, limit
