# SPDX-License-Identifier: Apache-2.0
"""Takes the quantisers of QONNX (Quant) out of a network: constants are rounded, computed tensors get a type instead.

A Quant with a scale of 2 ** e, a power of two, and zero point 0 is a conversion to ap_fixed<bits, bits + e>. Its definition:
https://github.com/fastmachinelearning/qonnx/blob/main/docs/qonnx-custom-ops/quant_op.md
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.frontend.onnx.graph import MOVING, evaluated, opset_of
from hypersonic.hls.frontend.onnx.nodes import Array, attributes

QUANT = ("Quant", "IntQuant")

_ROUNDING = {"ROUND": "AP_RND_CONV", "FLOOR": "AP_TRN"}


def take_quantisers(proto: Any) -> dict[str, str]:
    """Replace each Quant of a ModelProto by its rounded constant, or by an Identity; return hls4ml's types by tensor.

    Raises UnsupportedLayerError, with the node's name in the file, for a Quant that ap_fixed has no type for.
    """
    from onnx import helper, numpy_helper
    from qonnx.custom_op.general.quant import quant

    opset, types, nodes = opset_of(proto), dict[str, str](), list[Any]()
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    for node in proto.graph.node:
        read = [name for name in node.input if name]
        if node.op_type in QUANT:
            types[node.output[0]], options = _type_of(node, constants)
            if node.input[0] in constants:
                rounded = np.asarray(quant(constants[node.input[0]], **options), dtype=np.float32)
                constants[node.output[0]] = rounded
                proto.graph.initializer.append(numpy_helper.from_array(rounded, node.output[0]))
            else:
                nodes.append(helper.make_node("Identity", [node.input[0]], [node.output[0]], node.name))
            continue
        nodes.append(type(node).FromString(node.SerializeToString()))
        if all(name in constants for name in read):
            constants |= evaluated(node, constants, opset)
            if node.op_type in MOVING and node.input[0] in types:
                types[node.output[0]] = types[node.input[0]]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    return types


def _type_of(node: Any, constants: dict[str, Array]) -> tuple[str, dict[str, Any]]:
    """Return the type of a Quant's result, and the arguments of qonnx's function for it."""
    values = attributes(node)
    mode, signed, narrow = (
        values.get("rounding_mode", "ROUND").upper(),
        bool(values["signed"]),
        bool(values["narrow"]),
    )
    if any(name not in constants for name in node.input[1:4]):
        raise _refuse(node, "its scale, zero point or bit width is computed", "export the model for inference")
    scale, zero, bits = (np.asarray(constants[name], dtype=np.float64) for name in node.input[1:4])
    exponents = np.log2(np.where(scale > 0, scale, np.nan))
    if not (exponents == np.rint(exponents)).all():
        worst = scale[exponents != np.rint(exponents)].reshape(-1)[0] if scale.ndim else scale
        remedy = "train with power-of-two scales (Brevitas: Int8WeightPerTensorFixedPoint, Int8ActPerTensorFixedPoint)"
        raise _refuse(node, f"its scale {worst:g} is not a power of two, which fixed-point numbers need", remedy)
    if zero.any():
        raise _refuse(node, f"its zero point is {zero.reshape(-1)[0]:g}", "expected 0")
    if bits.size != 1 or bits != np.rint(bits) or mode not in _ROUNDING or (narrow and not signed):
        kind = "narrow " * narrow + ("signed" if signed else "unsigned")
        raise _refuse(node, f"it is {kind} with rounding {mode} and {bits} bits", "expected ROUND or FLOOR and whole bits")
    if scale.size > 1 and len(set(exponents.reshape(-1))) > 1 and node.input[0] not in constants:
        raise _refuse(node, f"it has {scale.size} scales, and hls4ml has one type for all channels", "expected one scale")
    low, integer = int(exponents.min()), int(bits.item()) + int(exponents.max())
    saturation = "AP_SAT_SYM" if narrow else "AP_SAT"
    kind = f"ap_{'' if signed else 'u'}fixed<{integer - low},{integer},{_ROUNDING[mode]},{saturation}>"
    arguments = {"scale": scale, "zeropt": zero, "bitwidth": bits, "signed": signed, "narrow": narrow, "rounding_mode": mode}
    return kind, arguments


def _refuse(node: Any, why: str, remedy: str) -> UnsupportedLayerError:
    return UnsupportedLayerError(f"layer {(node.name or node.output[0])!r}: {why}; {remedy}")
