# SPDX-License-Identifier: Apache-2.0
"""Runs in an environment with the base install alone: both clients against a server. Prints JSON: what it imported and got.

Arguments: the server's gRPC address, and the name of a model with INPUT0 + INPUT1 -> OUTPUT0, rows of 16 INT32.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import sys

import numpy as np
from numpy.typing import NDArray

from hypersonic.client import AsyncClient, Client, ServerError, UnknownModelError


def rows() -> dict[str, NDArray[np.int32]]:
    """More rows than one request takes, so that they are split and joined."""
    numbers = np.arange(20 * 16, dtype=np.int32).reshape(20, 16)
    return {"INPUT0": numbers, "INPUT1": 10 * numbers}


async def sum_async(address: str, model: str) -> NDArray[np.int32]:
    async with AsyncClient(address) as client:
        result = await client.model(model).result(rows())
    sums: NDArray[np.int32] = result.outputs["OUTPUT0"]
    return sums


def main(address: str, model: str) -> None:
    expected = 11 * rows()["INPUT0"]
    with Client(address) as client:
        found = client.model(model)
        np.testing.assert_array_equal(found.infer(rows())["OUTPUT0"], expected)
        for result in found.map([rows()] * 3):
            np.testing.assert_array_equal(result.outputs["OUTPUT0"], expected)
        text = client.statistics().as_text()
        try:
            client.model("nothing").infer(rows())
        except UnknownModelError as error:
            refused: ServerError = pickle.loads(pickle.dumps(error))
    np.testing.assert_array_equal(asyncio.run(sum_async(address, model)), expected)
    modules = sorted({name.partition(".")[0] for name in sys.modules})
    json.dump({"modules": modules, "text": text, "code": refused.code.name}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
