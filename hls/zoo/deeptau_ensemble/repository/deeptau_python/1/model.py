# SPDX-License-Identifier: Apache-2.0
"""Builds grids from lists of cells. The last cell of a list is used for all cells that are not listed."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # provided by the server in the model's process

GRIDS = {"inner": 11, "outer": 21}


class TritonPythonModel:
    """Triton's interface of a Python model.

    Inputs: input_tau (n, 47), input_<grid>_forconv (cells + 1, 1, 1, 64), input_<grid>_pos (cells, 3) as tau, eta, phi.
    Outputs: output_tau (n, 47) and output_<grid> (n, size, size, 64).
    """

    def execute(self, requests: list[Any]) -> list[Any]:
        """Return one response per request; it holds an error if the lists do not match."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        given = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        taus = given["input_tau"]
        try:
            grids = {
                f"output_{name}": _grid(given[f"input_{name}_forconv"], given[f"input_{name}_pos"], (len(taus), size, size))
                for name, size in GRIDS.items()
            }
        except ValueError as error:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error)))
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor(name, value) for name, value in {"output_tau": taus, **grids}.items()]
        )


def _grid(cells: Any, places: Any, shape: tuple[int, int, int]) -> Any:
    """Raises ValueError for places outside the grids, and for lists of different lengths."""
    if len(cells) != len(places) + 1:
        raise ValueError(f"{len(cells)} cells and {len(places)} places, expected one cell more, the empty one, as the last")
    if places.size and (places.min() < 0 or (places >= np.array(shape)).any()):
        raise ValueError(f"places reach from {places.min(0).tolist()} to {places.max(0).tolist()}, expected 0 to below {shape}")
    grid = np.tile(cells[-1, 0, 0], (*shape, 1))
    grid[tuple(places.T)] = cells[:-1, 0, 0]
    return grid
