# SPDX-License-Identifier: Apache-2.0
"""A job that asks servers, and computes by itself when none answers.

    python examples/client_with_fallback.py HOST:PORT [HOST:PORT ...]

It asks for FACILE, which `hypersonic build facile` and `hypersonic serve` provide.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.client import Client, Fallback, OtherServer, Timeout

CHARGES = slice(3, 11)  # the columns of a row that hold the charges of eight time slices


def sum_of_charges(inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
    """Estimate the energies from the charges alone: arrays by name in, arrays by name out."""
    return {"output": inputs["input"][:, CHARGES].sum(axis=1, keepdims=True)}


def main(addresses: list[str]) -> None:
    """Send ten events, and say who answered them."""
    generator = np.random.default_rng(1)
    answered: dict[str, int] = {}
    retry = (OtherServer(tries=2), Fallback(sum_of_charges))
    with Client(addresses, timeout=Timeout(total_s=20, connect_s=1), retry=retry) as client:
        model = client.model("facile")
        for _ in range(10):
            rows = generator.uniform(0, 100, (1000, 18)).astype(np.float32)
            result = model.result({"input": rows})
            answered[result.server] = answered.get(result.server, 0) + len(result.outputs["output"])
    for server, rows_of_it in sorted(answered.items()):
        print(f"{server}: {rows_of_it} rows")


if __name__ == "__main__":
    main(sys.argv[1:])
