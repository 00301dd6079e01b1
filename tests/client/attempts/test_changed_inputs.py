# SPDX-License-Identifier: Apache-2.0
"""The caller changes an array after submit(), or yields the same one again to map(): each event is answered as it was given."""

from __future__ import annotations

import asyncio
import random
import threading
from array import array
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import grpc
import numpy as np
import pytest

from hypersonic.client import AsyncClient, Client, Fallback, Health, OtherServer, SameServer
from hypersonic.client.batches import Ragged, Rectangular, snapshot
from tests.support.scripted_server import Script, fail, scripted_server
from tests.support.waiting import wait_until

X = np.arange(80, dtype=np.float32).reshape(20, 4)
DOUBLE = Fallback(lambda inputs: {"y": 2 * inputs["x"]})


def one_array(events: int = 60) -> Iterator[Any]:
    """Yield an array that is filled anew for each event, as a reader of files does."""
    rows = np.empty((3, 4), np.float32)
    for event in range(events):
        rows[:] = event
        yield rows


def check(results: Sequence[Any]) -> None:
    assert sorted(result.index for result in results) == list(range(60))
    wrong = [result.index for result in results if not np.all(result.output == 2 * result.index)]
    assert not wrong


def flaky(script: Script) -> None:
    """Three requests in ten fail."""
    rng = random.Random(1)

    def infer(_request: Any, context: grpc.ServicerContext) -> None:
        if rng.random() < 0.3:
            context.abort(grpc.StatusCode.UNAVAILABLE, "scripted")

    script.infer = infer


def fail_when(held: threading.Event) -> Callable[[Any, grpc.ServicerContext], None]:
    """Every request fails as soon as the event is set."""

    def infer(_request: Any, context: grpc.ServicerContext) -> None:
        held.wait(30)
        context.abort(grpc.StatusCode.UNAVAILABLE, "scripted")

    return infer


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("retry", [[SameServer(1), DOUBLE], [OtherServer(20)]], ids=["fallback", "retry"])
@pytest.mark.parametrize("versions", ["one", "mixed"])
def test_map_may_be_given_one_array_again_and_again(
    script: Script, address: str, ordered: bool, retry: list[Any], versions: Any
) -> None:
    flaky(script)
    with Client(address, retry=retry, health=Health(failures=1000)) as client:
        check(list(client.model("double").map(one_array(), ordered=ordered, versions=versions)))


@pytest.mark.parametrize("kind", [Ragged, Rectangular])
def test_entries_may_be_one_array_again_and_again_if_they_can_be_read_only_once(address: str, kind: Any) -> None:
    async def ask() -> Any:
        async with AsyncClient(address) as client:
            return await client.model("double").infer(kind(one_array()))

    with Client(address) as client:
        for answers in (client.model("double").infer(kind(one_array())), asyncio.run(ask())):
            assert [answer[0, 0] for answer in answers] == [2 * event for event in range(60)]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_map_of_asyncio_too(script: Script, address: str, asynchronous: bool) -> None:
    async def events() -> AsyncIterator[Any]:
        for rows in one_array():
            yield {"x": rows}

    async def ask() -> list[Any]:
        async with AsyncClient(address) as client:
            model = client.model("double")
            return [result async for result in model.map(events() if asynchronous else one_array())]

    check(asyncio.run(ask()))


def test_inputs_that_change_after_submit_are_sent_and_computed_as_they_were(script: Script, address: str) -> None:
    held = threading.Event()
    with Client(address, retry=[SameServer(1), DOUBLE]) as client:
        model = client.model("double")
        model.infer(X[:1])
        script.infer = fail_when(held)
        rows = X.copy()
        future = model.submit(rows)
        rows[:] = -1
        held.set()
        assert future.result().server == "fallback"
        np.testing.assert_array_equal(future.result().output, 2 * X)


def test_a_part_that_is_sent_again_for_the_version_of_the_others_has_its_rows(script: Script, address: str) -> None:
    script.versions, held, calls = ("1", "2"), threading.Event(), iter(range(100))

    def infer(_request: Any, context: grpc.ServicerContext) -> None:
        if next(calls) == 1:
            held.wait(30)
            context.abort(grpc.StatusCode.UNAVAILABLE, "scripted")

    with Client(address) as client:
        model = client.model("double")
        assert model.inputs
        script.infer = infer
        rows = X[:16].copy()
        future = model.submit(rows)
        wait_until(lambda: len(script.rows) == 1)
        rows[:] = -1
        held.set()
        np.testing.assert_array_equal(future.result().output, 4 * X[:16])


def test_asyncio_may_change_inputs_after_submit_too(script: Script, address: str) -> None:
    held = threading.Event()

    async def ask() -> Any:
        async with AsyncClient(address, retry=[SameServer(1), DOUBLE]) as client:
            model = client.model("double")
            await model.infer(X[:1])
            script.infer = fail_when(held)
            rows = X.copy()
            future = await model.submit(rows)
            rows[:] = -1
            held.set()
            return (await future).output

    np.testing.assert_array_equal(asyncio.run(ask()), 2 * X)


def test_without_a_copy_the_callers_memory_is_read(script: Script) -> None:
    script.infer = fail(grpc.StatusCode.UNAVAILABLE)
    seen: list[Any] = []

    def shared(inputs: Any) -> Any:
        seen.append(np.shares_memory(inputs["x"], X))
        return {"y": 2 * inputs["x"]}

    with scripted_server(script) as address, Client(address, retry=Fallback(shared)) as client:
        for copy in (False, True):
            client.model("double").submit(X[:3], copy=copy).result()
            list(client.model("double").map([X[:3]], copy=copy))
    assert seen == [True, True, False, False]


class Tensor:
    """An array of another library, whose memory numpy reads."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.values


GIVEN = {
    "array": lambda values: values,
    "transposed": lambda values: values.T,
    "dict": lambda values: {"x": values},
    "list": lambda values: [values, values],
    "nested": lambda values: [[values], (values,)],
    "another class": Tensor,
    "bytearray": lambda values: bytearray(values.tobytes()),
    "array.array": lambda values: array("f", values.ravel()),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_a_snapshot_shares_no_memory_with_what_is_given(kind: str) -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    given = GIVEN[kind](values)
    made = snapshot(given)
    wanted, values[:] = np.array(given["x"] if isinstance(given, dict) else given), -1
    if isinstance(given, bytearray | array):
        given[0] = 99
    np.testing.assert_array_equal(made["x"] if isinstance(made, dict) else made, wanted)


def test_a_snapshot_keeps_masks_and_what_cannot_change() -> None:
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    assert snapshot(masked).mask.tolist() == [False, True]
    words = np.array([b"a\0", "b"], object)
    assert snapshot(words).tolist() == [b"a\0", "b"]
    assert snapshot([b"a\0", "b", None, 1.5]) == [b"a\0", "b", None, 1.5]
    entries = Rectangular([X])
    assert snapshot(entries) is entries


def test_what_cannot_be_copied_is_refused_when_the_inputs_are_checked() -> None:
    class Broken:
        def __array__(self, *_given: object, **_named: object) -> Any:
            raise TypeError("no array")

    broken = Broken()
    assert snapshot(broken) is broken
