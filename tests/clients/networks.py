# SPDX-License-Identifier: Apache-2.0
"""The network that the client programs query: rows of features in, one energy for each row out, on each backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypersonic.client import ModelSpec, TensorSpec
from hypersonic.events.golden import check_against_csim
from hypersonic.hls.zoo.facile.events import log_flat_events
from tests.reference.servers import Served

#: any wait ends after this, to fail
WAIT_S = 60
Floats = NDArray[np.float32]


class Network(NamedTuple):
    """A served model. rows: what it is asked, shape (n, features); check(x, y) raises where y is not the answer to x."""

    server: Served
    model: str
    given: str
    wanted: str
    rows: Floats
    check: Callable[[Floats, Floats], object]


def summing(server: Served, model: str) -> Network:
    """`facile` of tests/clients/repository.py: small whole numbers, so that their sum is exact in any order."""
    rows = np.random.default_rng(15).integers(-99, 100, (400, 15)).astype(np.float32)
    return Network(server, model, "input_1", "output", rows, _check_sums)


def on_card(server: Served) -> Network:
    """FACILE on the emulated card: the fabric's integers are csim's."""
    rows = np.ascontiguousarray(log_flat_events(1, seed=3).rows[:400])
    tensors = (TensorSpec("input", "FP32", (rows.shape[1],)),), (TensorSpec("output", "FP32", (1,)),)
    facile = ModelSpec("facile", "", ("1",), *tensors, max_batch_size=len(rows))
    return Network(server, "facile", "input", "output", rows, lambda x, y: check_against_csim("facile", facile, (x,), (y,)))


def _check_sums(x: Floats, y: Floats) -> None:
    np.testing.assert_array_equal(y, x.sum(axis=1, keepdims=True))
