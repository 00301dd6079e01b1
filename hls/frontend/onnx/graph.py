# SPDX-License-Identifier: Apache-2.0
"""Reads a plain ONNX file from any exporter: its nodes, constants and shapes, and onnxruntime's answers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.onnx.batch import moves_rows, rows_first
from hypersonic.hls.frontend.onnx.nodes import Array, OnnxGraph
from hypersonic.hls.frontend.onnx.patterns import fused

#: the version of ONNX 1.15, which every onnxruntime since 1.17 reads; newer ones only add number types that are not used here
IR_VERSION = 9

#: operators that keep a constant's numbers, so that its type holds behind them too
MOVING = ("Identity", "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze")

#: operators of QONNX, which onnxruntime does not support
_QUANTISERS = ("Quant", "IntQuant", "BipolarQuant", "Trunc")


def load_proto(file: Path) -> Any:
    """Load a .onnx file as a ModelProto, with its external data, and inline its local functions. Raises ConversionError."""
    import onnx
    from onnx import inliner

    try:
        proto = onnx.load(str(file))
        return inliner.inline_local_functions(proto)
    except Exception as error:
        text = " ".join(str(error).split())
        raise ConversionError(f"{file} is not an ONNX model: {text[:300]}") from error


def quantisers(proto: Any) -> set[str]:
    """Return the operators of QONNX that the model has."""
    return {node.op_type for node in proto.graph.node} & {*_QUANTISERS}


def data_files(file: Path) -> list[Path]:
    """Return the files beside a .onnx file that hold its external data; empty if the file cannot be read."""
    import onnx

    try:
        graph = onnx.load(str(file), load_external_data=False).graph
    except Exception:  # noqa: BLE001 - the conversion will report what is wrong with the file
        return []
    tensors = [*graph.initializer, *(attribute.t for node in graph.node for attribute in node.attribute)]
    names = {entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "location"}
    beside = file.resolve().parent
    return sorted(path for name in names if (path := (beside / name).resolve()).is_file() and path.is_relative_to(beside))


def settle(tensors: Iterable[Any], *, opened: bool = False) -> int:
    """Set an open batch dimension of the tensors to one row; with `opened`, leave it open.

    Returns the number of rows per run that the file demands, or 0 for any. Raises ConversionError if another dimension is not
    a number.
    """
    rows = 0
    for tensor in tensors:
        batch, *sizes = tensor.type.tensor_type.shape.dim or (None,)
        if batch is None or not sizes or min(size.dim_value for size in sizes) < 1:
            raise ConversionError(_unsettled(tensor.name, [batch, *sizes] if sizes else []))
        if batch.dim_value > 0:
            rows = max(rows, batch.dim_value)
        elif opened:
            batch.Clear()
        else:
            batch.dim_value = 1
    return rows


def _unsettled(name: str, sizes: list[Any]) -> str:
    """Return the error text for a tensor with a dimension of unknown size, other than the batch.

    Args:
        sizes: none if unknown.
    """
    shape = [size.dim_param or (size.dim_value if size.dim_value > 0 else "?") for size in sizes]
    open_ones = [place for place, size in enumerate(sizes) if place and size.dim_value < 1]
    what = f"shape is ({', '.join(map(str, shape))})" if sizes else "shape is unknown"
    which = f"dimension {' and '.join(map(str, open_ones))}" if open_ones else "each dimension after the batch"
    return (
        f"tensor {name!r}: {what}, expected a number for {which}, because hardware has one size; `hypersonic "
        "new MODEL --shape SIZE,...` writes a copy with it, or export the model with it (in torch, leave it out of "
        "dynamic_axes or dynamic_shapes)"
    )


def read_graph(proto: Any, types: Mapping[str, str] = MappingProxyType({})) -> OnnxGraph:
    """Read the graph of a ModelProto without quantisers; this changes `proto`.

    Args:
        types: of the tensors that they made.

    Raises:
        ConversionError: If shapes are unknown, an input is not FLOAT, or onnxruntime cannot run the model.
    """
    from onnx import shape_inference

    kept = type(proto)()
    kept.CopyFrom(proto)
    batch = settle(computed_inputs(proto.graph))
    _check_types(proto.graph)
    session = _session(kept)
    for tensor in proto.graph.output:
        tensor.type.tensor_type.ClearField("shape")
    del proto.graph.value_info[:]
    opset, written = opset_of(proto), [type(node).FromString(node.SerializeToString()) for node in proto.graph.node]
    while True:  # a shape may depend on a constant that is computed from another shape
        try:
            inferred = shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True)
        except Exception as error:
            text = " ".join(str(error).split())
            raise ConversionError(f"the shapes of the ONNX model cannot be found: {text[:300]}") from error
        shapes = _shapes(inferred.graph)
        constants, nodes = _folded(proto, shapes, opset)
        if len(nodes) == len(proto.graph.node):
            break
        _put(proto.graph, constants, nodes)
    types = {**constant_types(written, constants), **types}
    outputs = tuple(tensor.name for tensor in proto.graph.output)
    inputs = tuple(tensor.name for tensor in computed_inputs(proto.graph))
    moved = moves_rows(nodes, shapes, batch or 1)
    found = rows_first(nodes, constants, shapes, inputs, outputs) if moved else None
    if found and (batch or _are_apart(session, {name: shapes[name] for name in inputs})):
        nodes, constants, shapes = found
    nodes = fused(nodes, constants, shapes, frozenset(outputs))
    counts: dict[str, int] = {}
    names = tuple(_numbered("Quant" if node.output[0] in types else node.op_type, counts) for node in nodes)
    origins = {name: node.name or node.output[0] for name, node in zip(names, nodes, strict=True)}
    return OnnxGraph(inputs, outputs, nodes, names, origins, constants, shapes, opset, session, batch, types)


def computed_inputs(graph: Any) -> list[Any]:
    """Return the graph's inputs without its weights, which older files list as inputs."""
    constants = {constant.name for constant in graph.initializer}
    return [tensor for tensor in graph.input if tensor.name not in constants]


def _check_types(graph: Any) -> None:
    from onnx import TensorProto

    for tensor in computed_inputs(graph):
        kind = tensor.type.tensor_type.elem_type
        if kind != TensorProto.FLOAT:
            raise ConversionError(
                f"input {tensor.name!r} is of {TensorProto.DataType.Name(kind)}, expected FLOAT; export the model in float32"
            )


def _numbered(kind: str, counts: dict[str, int]) -> str:
    counts[kind] = counts.get(kind, -1) + 1
    return f"{kind}_{counts[kind]}"


def _session(proto: Any) -> Any:
    """An onnxruntime session of the file; the format's version, which may be newer than onnxruntime reads, is lowered."""
    settle(computed_inputs(proto.graph), opened=True)
    for tensor in proto.graph.output:
        tensor.type.tensor_type.ClearField("shape")
    del proto.graph.value_info[:]
    proto.ir_version = min(proto.ir_version, IR_VERSION)
    try:
        return _opened(proto)
    except Exception as error:
        raise ConversionError(
            f"onnxruntime, which is the reference, does not run the ONNX model: {_said(error)}; export it again, for "
            "rows as the model takes them"
        ) from error


def _are_apart(session: Any, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Return whether two rows together have the answers that each has alone.

    Args:
        shapes: of the inputs, for one row.
    """
    rng = np.random.default_rng(0)
    rows = {name: rng.uniform(-1, 1, (2, *shape[1:])).astype(np.float32) for name, shape in shapes.items()}
    try:
        both, *alone = (
            session.run(None, {name: part[at] for name, part in rows.items()}) for at in (slice(0, 2), slice(0, 1), slice(1, 2))
        )
    except Exception:  # noqa: BLE001 - a size of one row is fixed inside; onnxruntime's errors have no common class
        return True
    return all(  # float32 sums may be in another order for another number of rows
        together.shape[:1] == (2,) and np.allclose(together, np.concatenate(each), rtol=1e-3, atol=1e-5)
        for together, *each in zip(both, *alone, strict=True)
    )


def _said(error: Exception) -> str:
    """The text of an exception of onnxruntime's, without the names of its classes and its codes."""
    return re.sub(r"\[\w*Error\] ?(: \d+ : \w+ : )?", "", " ".join(str(error).split()))[:300]


def _opened(proto: Any) -> Any:
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # as in server/backends/onnxruntime/backend.py
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # floats between the pairs, as the operators are defined: the sums of fused int8 products saturate on x86 without VNNI
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _shapes(graph: Any) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for tensor in (*graph.input, *graph.value_info, *graph.output):
        kind = tensor.type.tensor_type
        sizes = [size.dim_value for size in kind.shape.dim]
        if kind.HasField("shape") and all(sizes):
            shapes[tensor.name] = tuple(sizes)
    return shapes


def _put(graph: Any, constants: dict[str, Array], nodes: tuple[Any, ...]) -> None:
    """Replace the graph's nodes by `nodes`, and the folded ones by their constants."""
    from onnx import numpy_helper

    left = [type(node).FromString(node.SerializeToString()) for node in nodes]
    present = {tensor.name for tensor in graph.initializer}
    graph.initializer.extend(
        numpy_helper.from_array(np.asarray(numbers), name) for name, numbers in constants.items() if name not in present
    )
    del graph.node[:]
    graph.node.extend(left)


def _folded(proto: Any, shapes: dict[str, tuple[int, ...]], opset: int) -> tuple[dict[str, Array], tuple[Any, ...]]:
    """The constants, including those computed from constants and shapes alone, and the remaining nodes."""
    from onnx import numpy_helper

    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    left = []
    for node in proto.graph.node:
        read = [name for name in node.input if name]
        if node.op_type == "Shape" and node.input[0] in shapes:
            bounds = {attribute.name: attribute.i for attribute in node.attribute}
            shape = shapes[node.input[0]][bounds.get("start", 0) : bounds.get("end")]
            constants[node.output[0]] = np.array(shape, dtype=np.int64)
        elif all(name in constants for name in read):
            constants |= evaluated(node, constants, opset)
        else:
            left.append(node)
    return constants, tuple(left)


def evaluated(node: Any, constants: dict[str, Array], opset: int) -> dict[str, Array]:
    """Return the results, by tensor, of a node all of whose inputs are among the constants.

    Raises ConversionError, with the node's name, if neither onnx nor onnxruntime computes it.
    """
    from onnx import helper, reference

    inputs, outputs = list(dict.fromkeys(name for name in node.input if name)), [name for name in node.output if name]
    given = {name: constants[name] for name in inputs}
    one = helper.make_function("", "one", inputs, outputs, [node], [helper.make_opsetid("", opset)])
    try:
        run = reference.ReferenceEvaluator(one).run(None, given, attributes={})
    except Exception:  # noqa: BLE001 - onnx's implementations miss versions of some operators, such as DequantizeLinear
        run = _run_alone(node, given, outputs, opset)
    return dict(zip(outputs, map(np.asarray, run), strict=True))


def _run_alone(node: Any, given: dict[str, Array], outputs: list[str], opset: int) -> list[Array]:
    """Run one node in onnxruntime."""
    from onnx import TypeProto, ValueInfoProto, helper, numpy_helper

    tensors = [numpy_helper.from_array(numbers, name) for name, numbers in given.items()]
    results = [ValueInfoProto(name=name, type=TypeProto()) for name in outputs]
    graph = helper.make_graph([node], "one", [], results, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_VERSION)
    try:
        return [np.asarray(result) for result in _opened(model).run(outputs, {})]
    except Exception as error:
        raise ConversionError(
            f"node {(node.name or node.output[0])!r} ({node.op_type}) computes a constant, and onnxruntime does not run it: "
            f"{_said(error)}; export the model with its constants folded"
        ) from error


def opset_of(proto: Any) -> int:
    """Return the version of ONNX's own operators that a ModelProto uses."""
    return max([entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")], default=1)


def constant_types(nodes: Iterable[Any], constants: Mapping[str, Array]) -> dict[str, str]:
    """Return hls4ml's types of the constants behind a DequantizeLinear whose scales are powers of two, by tensor.

    Args:
        nodes: all nodes of the file, in order.
        constants: the numbers of every constant tensor.
    """
    types = dict[str, str]()
    for node in nodes:
        if not node.output or node.output[0] not in constants:
            continue
        if node.op_type in MOVING and node.input[0] in types:
            types[node.output[0]] = types[node.input[0]]
        elif node.op_type == "DequantizeLinear":
            exponents = np.log2(np.asarray(constants[node.input[1]], np.float64).reshape(-1))
            if (exponents == np.rint(exponents)).all():
                types[node.output[0]] = _narrowest(constants[node.output[0]], int(exponents.min()))
    return types


def _narrowest(numbers: Array, exponent: int) -> str:
    """The narrowest signed type whose step is 2 ** exponent and which holds the numbers."""
    whole = np.rint(np.ldexp(np.asarray(numbers, np.float64), -exponent)).astype(np.int64)
    low, high = int(whole.min(initial=0)), int(whole.max(initial=0))
    bits = 1 + max(high.bit_length(), (~low).bit_length() if low < 0 else 0)
    return f"ap_fixed<{bits},{bits + exponent}>"
