# SPDX-License-Identifier: Apache-2.0
"""Random types, weights and reuse factors for the families of networks (families.py), and the layers of products of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

ROUNDINGS = ("TRN", "RND", "RND_CONV", "TRN_ZERO", "RND_ZERO", "RND_INF", "RND_MIN_INF")
OVERFLOWS = ("WRAP", "SAT", "SAT_ZERO", "SAT_SYM")

#: accumulators that cut bits of products, and wide ones, which hold every sum
ACCUMS = ("ap_fixed<40,20>", "ap_fixed<18,10>", "ap_fixed<16,9,AP_RND>", "ap_ufixed<14,8>", "ap_fixed<48,24,AP_RND,AP_SAT>")

Config = dict[str, Any]


class Types:
    """Random precisions: every rounding and overflow mode of results comes up."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def result(self, low: int = 4, high: int = 18, integer: tuple[int, int] = (1, 8)) -> str:
        width = int(self.rng.integers(low, high, endpoint=True))
        whole = min(width, int(self.rng.integers(*integer, endpoint=True)))
        kind = "ap_fixed" if self.rng.random() < 0.7 else "ap_ufixed"
        return f"{kind}<{width},{whole},AP_{self.rng.choice(ROUNDINGS)},AP_{self.rng.choice(OVERFLOWS)}>"

    def weight(self, low: int = 4, high: int = 12) -> str:
        return f"ap_fixed<{int(self.rng.integers(low, high, endpoint=True))},3>"

    def accum(self) -> str:
        return str(
            self.rng.choice(["auto", "auto", "ap_fixed<40,14>", "ap_fixed<24,10>", "ap_fixed<18,12,AP_RND>", "ap_fixed<12,6>"])
        )

    def product(self, bias: bool = True) -> dict[str, str]:
        """Precision of a Dense or a convolution."""
        types = {"weight": self.weight(), "accum": self.accum(), "result": self.result()}
        return types | ({"bias": self.weight(4, 14)} if bias else {})


def uniform(keras: Any, rng: np.random.Generator, limit: float = 3.2) -> Any:
    return keras.initializers.RandomUniform(-limit, limit, seed=int(rng.integers(1 << 30)))


def reuse(rng: np.random.Generator) -> Config:
    """Strategy and reuse factor as users give them, divisors or not, and where the weights are to be."""
    return {
        "Strategy": str(rng.choice(["Latency", "Resource"])),
        "ReuseFactor": int(rng.choice([1, 2, 3, 4, 6, 8, 12, 16, 64])),
        "WeightsIn": str(rng.choice(["BRAM", "URAM", "DRAM"])),
    }


def einsum_layers(rng: np.random.Generator, types: Types) -> tuple[list[dict[str, Any]], dict[str, Any]]:
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
