# SPDX-License-Identifier: Apache-2.0
"""Random types, weights and reuse factors for the families of networks (families.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

ROUNDINGS = ("TRN", "RND", "RND_CONV", "TRN_ZERO", "RND_ZERO", "RND_INF", "RND_MIN_INF")
OVERFLOWS = ("WRAP", "SAT", "SAT_ZERO", "SAT_SYM")

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
