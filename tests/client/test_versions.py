# SPDX-License-Identifier: Apache-2.0
"""Servers that serve different versions of a model, as in a rolling update: version n answers y = 2 n x."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from hypersonic.client import AsyncClient, Client, Health, Limits, Ragged, Rectangular, UnknownModelError, VersionGoneError
from hypersonic.client.attempts.request import Request, Result
from hypersonic.client.engine import Engine
from tests.support.scripted_server import Script, scripted_server

X = np.arange(1, 201, dtype=np.float32).reshape(50, 4)  # seven requests of at most eight rows
QUICK = Health(first_s=0.05, longest_s=0.1)


@pytest.fixture
def servers() -> Iterator[list[str]]:
    """Two servers with version 1 and two with version 2."""
    with ExitStack() as stack:
        yield [stack.enter_context(scripted_server(Script(versions=(version,)))) for version in ("1", "2", "1", "2")]


def check(result: Result, rows: np.ndarray = X) -> None:
    np.testing.assert_array_equal(result.output, 2 * int(result.version) * rows)


@pytest.mark.parametrize("call", ["result", "submit"])
def test_all_rows_of_a_call_come_from_one_version(servers: list[str], call: str) -> None:
    with Client(servers) as client:
        model = client.model("double")
        seen = set()
        for _ in range(40):
            result = model.result(X) if call == "result" else model.submit(X).result()
            check(result)
            seen.add(result.version)
        for entries in (Ragged([X[:30], X[30:]]), Rectangular([X[:30], X[30:]])):
            for _ in range(10):
                joined = np.concatenate(model.infer(entries))
                np.testing.assert_array_equal(joined, joined[0, 0] * X)
    assert seen == {"1", "2"}, "each call chooses"


def test_asyncio_has_one_version_per_call_too(servers: list[str]) -> None:
    async def ask() -> list[Result]:
        async with AsyncClient(servers) as client:
            model = client.model("double")
            results = await asyncio.gather(*(model.result(X) for _ in range(20)))
            results += [await (await model.submit(X))]
            results += [result async for result in model.map([X] * 10)]
            only = [result.version async for result in model.map([X] * 10, versions="one")]
            assert len(set(only)) == 1
            assert (await model.result(X, version=2)).version == "2"
            return results

    for result in asyncio.run(ask()):
        check(result)


def test_mixed_versions_are_taken_only_if_asked_for_and_the_result_tells(servers: list[str]) -> None:
    with Client(servers) as client:
        model = client.model("double")
        results = [model.result(X, versions="mixed") for _ in range(20)]
        assert any(result.version in {"1, 2", "2, 1"} for result in results)
        with pytest.raises(ValueError, match="versions is 'all', expected 'one' or 'mixed'"):
            model.infer(X, versions="all")  # type: ignore[arg-type]


def test_a_map_has_one_version_per_event_or_one_for_all(servers: list[str]) -> None:
    with Client(servers) as client:
        model = client.model("double")
        for result in (results := list(model.map([X] * 30))):
            check(result)
        assert {result.version for result in results} == {"1", "2"}
        for ordered in (True, False):
            assert len({result.version for result in model.map([X] * 30, versions="one", ordered=ordered)}) == 1
        assert {result.version for result in model.map([X] * 30, version=2)} == {"2"}


@pytest.mark.parametrize("version", [1, "2"])
def test_a_version_that_is_asked_for_is_the_one_that_answers(servers: list[str], version: str | int) -> None:
    with Client(servers) as client:
        for result in (
            client.model("double").result(X, version=version),
            client.model("double", version).result(X),
            client.model("double", 2).result(X, version=version),
        ):
            assert result.version == str(version)
            check(result)
        with pytest.raises(UnknownModelError, match="version 7"):
            client.model("double").infer(X, version=7)


def updating(after: int) -> Script:
    """A server that replaces version 1 by version 2 after so many requests."""
    script = Script(versions=("1",))

    def infer(_request: Any, _context: Any) -> None:
        if script.calls["ModelInfer"] > after:
            script.versions = ("2",)

    script.infer = infer
    return script


@pytest.mark.parametrize(
    "call", ["result", "submit", "ragged", "async", "async ragged", "ragged, read once", "async ragged, read once"]
)
def test_a_call_whose_version_is_gone_is_made_again_with_the_one_that_is_there_in_the_same_time(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second attempt of the call has what is left of its time, and not all of it again."""
    parts = [X[:8], X[8:16], X[16:]]
    entries = Ragged(iter(parts) if "read once" in call else parts)  # type: ignore[arg-type] # it is taken all the same
    ends = set()

    def launch(engine: Engine, request: Request) -> Any:
        ends.add(request.time.until)
        return real(engine, request)

    async def ask(address: str) -> Any:
        async with AsyncClient(address, limits=Limits(in_flight=1), health=QUICK, timeout=60) as client:
            model = client.model("double")
            return await (model.infer(entries) if "ragged" in call else model.result(X))

    real = Engine._launch
    monkeypatch.setattr(Engine, "_launch", launch)
    with (
        scripted_server(updating(3)) as address,
        Client(address, limits=Limits(in_flight=1), health=QUICK, timeout=60) as client,
    ):
        model = client.model("double")
        calls = {
            "result": lambda: model.result(X),
            "submit": lambda: model.submit(X).result(),
            "ragged": lambda: model.infer(entries),
            "ragged, read once": lambda: model.infer(entries),
        }
        result = calls[call]() if call in calls else asyncio.run(ask(address))
    if "ragged" in call:
        np.testing.assert_array_equal(np.concatenate(result), 4 * X)
    else:
        assert result.version == "2"
        check(result)
    assert len(ends) == 1


def test_a_map_of_one_version_ends_with_a_typed_error_when_it_is_gone() -> None:
    with scripted_server(updating(5)) as address, Client(address, health=QUICK, limits=Limits(in_flight=1)) as client:
        answered = []
        with pytest.raises(VersionGoneError, match="version 1 has answered, and no server has it any more") as error:
            answered += [result.version for result in client.model("double").map([X[:2]] * 20, versions="one")]
    assert error.value.index == 5
    assert isinstance(error.value, UnknownModelError)


def test_a_server_that_answers_with_another_version_than_asked_for_is_wrong() -> None:
    def damage(_request: Any, answer: Any) -> None:
        answer.model_version = "3"

    with scripted_server(Script(damage=damage)) as bad, scripted_server(Script()) as good, Client([bad, good]) as client:
        model = client.model("double", 1)
        assert {model.result(X[:1]).server for _ in range(10)} == {good}
        assert "it is of version 3, expected 1" in client.statistics().as_text()
