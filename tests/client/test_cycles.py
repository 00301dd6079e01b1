# SPDX-License-Identifier: Apache-2.0
"""A request that is over is freed at once: in a reference cycle, its tensors would stay until the garbage collector runs."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from hypersonic.client import Client
from hypersonic.client.attempts.background import Background
from hypersonic.client.attempts.request import Request
from tests.support.scripted_server import Script, scripted_server
from tests.support.waiting import wait_until

X = np.arange(20, dtype=np.float32).reshape(5, 4)

CALLS: dict[str, Callable[[Client], object]] = {
    "infer": lambda client: client.model("double").infer(X),
    "submit": lambda client: client.model("double").submit(X).result(30),
    "split": lambda client: client.model("double").submit(np.repeat(X, 9, axis=0)).result(30),
    "map": lambda client: [result.output for result in client.model("double").map([X] * 5)],
    "map, unordered": lambda client: [result.output for result in client.model("double").map([X] * 5, ordered=False)],
}


@contextmanager
def no_collection() -> Iterator[None]:
    """Keep the garbage collector from running."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def alive() -> int:
    return sum(isinstance(each, Request | Background) for each in gc.get_objects())


@pytest.mark.parametrize("call", CALLS)
def test_a_request_that_is_over_leaves_no_reference_cycle(call: str) -> None:
    with scripted_server(Script()) as address, Client(address) as client:
        CALLS[call](client)
        with no_collection():
            CALLS[call](client)
            wait_until(lambda: alive() == 0, 10)
