# SPDX-License-Identifier: Apache-2.0
"""Einsum and EinsumDense with random equations, as hls4ml's layer lists: only HGQ2 has them in Keras."""

from __future__ import annotations

from typing import Any

import numpy as np

#: accumulators that cut bits of products, and wide ones, which hold every sum
ACCUMS = ("ap_fixed<40,20>", "ap_fixed<18,10>", "ap_fixed<16,9,AP_RND>", "ap_ufixed<14,8>", "ap_fixed<48,24,AP_RND,AP_SAT>")


def einsum_layers(rng: np.random.Generator, types: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """y = einsum(einsum_dense(x), z), and what is to be configured by layer. types: gives precisions."""
    sizes = {letter: int(rng.integers(2, 4)) for letter in "abcdefgh"}
    # axes: ab of both and of the result, c of the first alone, d of the second, ef of both but not of the result, gh only of x
    both, first, second, summed = (list(part[: int(rng.integers(low, len(part) + 1))]) for low, part in _AXES)
    left, right, out = (
        _mixed(rng, axes) for axes in ([*both, *first, *summed], [*both, *second, *summed], [*both, *first, *second])
    )
    kinds = dict(zip(left, rng.integers(3, size=len(left)), strict=True))  # of x and of the weights, of x, of the weights
    contracted = list("gh"[: int(rng.integers(1, 3))])
    data = _mixed(rng, [*(axis for axis in left if kinds[axis] < 2), *contracted])
    kernel = _mixed(rng, [*(axis for axis in left if kinds[axis] != 1), *contracted])
    shape = {name: tuple(sizes[axis] for axis in axes) for name, axes in (("x", data), ("z", right), ("d", left), ("y", out))}
    biased = tuple(sizes[axis] if rng.random() < 0.7 else 1 for axis in left)
    layers: list[dict[str, Any]] = [
        {"class_name": "InputLayer", "name": name, "input_shape": list(shape[name])} for name in "xz"
    ]
    layers.append({
        "class_name": "EinsumDense", "name": "d", "inputs": ["x"], "equation": f"{data},{kernel}->{left}",
        "inp_shape": shape["x"], "out_shape": shape["d"],
        "weight_data": rng.uniform(-3.2, 3.2, [sizes[axis] for axis in kernel]), "bias_data": rng.uniform(-3.2, 3.2, biased),
    })  # fmt: skip
    layers.append({
        "class_name": "Einsum", "name": "y", "inputs": ["d", "z"], "equation": f"{left},{right}->{out}",
        "inp0_shape": shape["d"], "inp1_shape": shape["z"], "out_shape": shape["y"],
    })  # fmt: skip
    names: dict[str, Any] = {name: {"Precision": {"result": types.result(4, 10)}} for name in "xz"}
    for name, precision in (("d", types.product()), ("y", {"result": types.result()})):
        precision["accum"] = str(rng.choice(ACCUMS))
        names[name] = {"Precision": precision, "ReuseFactor": int(rng.choice([1, 2, 3, 4, 6, 64])), "Strategy": "latency"}
    names["d"]["WeightsIn"] = str(rng.choice(["BRAM", "URAM", "DRAM"]))
    return layers, names


_AXES = ((1, "ab"), (1, "c"), (1, "d"), (1, "ef"))


def _mixed(rng: np.random.Generator, axes: list[str]) -> str:
    return "".join(rng.permutation(axes))
