# SPDX-License-Identifier: Apache-2.0
"""Client and AsyncClient have the same methods, arguments and results, and do what their signatures say."""

from __future__ import annotations

import asyncio
import inspect
import re
import tracemalloc
from typing import Any

import grpc
import numpy as np
import pytest

from hypersonic.client import (
    AsyncClient,
    AsyncModel,
    Client,
    ClientError,
    ClosedError,
    DeadlineError,
    InputError,
    Limits,
    Model,
    RequestError,
    Result,
    Sequence,
    Timeout,
)
from hypersonic.client.asynchronous import AsyncSequence
from tests.support.scripted_server import Script, fail, scripted_server, wait

X = np.arange(80, dtype=np.float32).reshape(20, 4)
#: annotations of asyncio -> of threads
SAME = {
    r"Iterable\[Any\] \| AsyncIterable\[Any\]": "Iterable[Any]",
    r"Async(Client|Model|Sequence|Iterator)": r"\1",
    r"asyncio\.Future": "Future",
    r"\bAnswers\b": "Iterator[Result]",
}


def described(member: Any) -> tuple[list[tuple[Any, ...]], str]:
    """The parameters and the result of a method; a property counts as a method without parameters."""
    function: Any = member.fget if isinstance(member, property) else member
    signature = inspect.signature(function)
    parameters: list[tuple[Any, ...]] = [
        (each.name, each.kind, each.default, normal(str(each.annotation)))
        for each in signature.parameters.values()
        if each.name != "self"
    ]
    return parameters, normal(str(signature.return_annotation))


def normal(annotation: str) -> str:
    for pattern, same in SAME.items():
        annotation = re.sub(pattern, same, annotation)
    return annotation


def public(kind: type) -> dict[str, Any]:
    return {name: inspect.getattr_static(kind, name) for name in dir(kind) if not name.startswith("_") and name != "engine"}


@pytest.mark.parametrize(("threads", "asynchronous"), [(Client, AsyncClient), (Model, AsyncModel), (Sequence, AsyncSequence)])
def test_both_clients_have_the_same_surface(threads: type, asynchronous: type) -> None:
    ours, theirs = public(threads), public(asynchronous)
    assert set(ours) == set(theirs)
    for name, member in ours.items():
        one, other = (getattr(each, "__func__", each) for each in (member, theirs[name]))
        assert described(one) == described(other), name


def test_both_clients_are_made_of_the_same_arguments() -> None:
    assert described(Client) == described(AsyncClient)


def test_infer_gives_arrays_and_result_a_result_in_both(address: str) -> None:
    async def ask() -> tuple[Any, Result, Any]:
        async with AsyncClient(address) as client:
            model = client.model("double")
            future = await model.submit(X, outputs="y")
            assert (await model.inputs())[0].name == "x"
            assert (await model.max_batch_size(), model.name) == (8, "double")
            return await model.infer(X), await model.result(X), (await future).output

    with Client(address) as client:
        model = client.model("double")
        for infer, result, submitted in (
            asyncio.run(ask()),
            (model.infer(X), model.result(X), model.submit(X, outputs="y").result().output),
        ):
            assert isinstance(result, Result)
            for array in (infer, result.output, submitted):
                np.testing.assert_array_equal(array, 2 * X)


def test_a_timeout_is_a_number_of_seconds_on_the_client_and_on_the_call(script: Script, address: str) -> None:
    script.infer = wait(0.5)
    with Client(address, timeout=0.1) as client, pytest.raises(DeadlineError, match=r"the time is up after 0\.1 s"):
        client.model("double").infer(X[:1])
    with Client(address) as client:
        model = client.model("double")
        with pytest.raises(DeadlineError, match=r"the time is up after 0\.1 s; raise timeout="):
            model.submit(X[:1], timeout=0.1).result()
        with pytest.raises(ValueError, match="timeout is 0 s, expected more than 0"):
            model.infer(X[:1], timeout=0)
        with pytest.raises(TypeError, match="timeout is 'soon', expected seconds"):
            model.infer(X[:1], timeout="soon")  # type: ignore[arg-type]


def test_the_parts_of_a_call_have_their_own_time_and_call_s_bounds_them_all(script: Script, address: str) -> None:
    script.infer = wait(0.2)
    one_by_one = Limits(in_flight=1)
    with Client(address, timeout=Timeout(total_s=0.45), limits=one_by_one) as client:
        np.testing.assert_array_equal(client.model("double").infer(X), 2 * X)  # three parts, 0.6 s
    with Client(address, timeout=Timeout(total_s=60, call_s=0.3), limits=one_by_one) as client:
        words = r"part [23] of 3, .* bytes: the time of the call is up after 0\.3 s; .*map\(\)"
        with pytest.raises(DeadlineError, match=words):
            client.model("double").infer(X)


def test_the_time_is_up_only_when_it_is(script: Script, address: str) -> None:
    """An attempt that takes too long, with time left and no tries, is not the end of the time."""
    script.infer = wait(0.3)
    with Client(address, timeout=Timeout(total_s=60, attempt_s=0.05), retry=()) as client, pytest.raises(ClientError) as error:
        client.model("double").infer(X[:1])
    assert not isinstance(error.value, DeadlineError)
    assert "the time is up" not in str(error.value)


def test_a_request_id_reaches_the_server(script: Script, address: str) -> None:
    seen = []
    script.infer = lambda request, _context: seen.append(request.id)
    with Client(address) as client:
        client.model("double").infer(X[:1], request_id="event 7")
        client.model("double").infer(X[:1])
    assert seen == ["event 7", ""]


def test_a_map_returns_the_error_of_an_event_with_its_index_and_goes_on(script: Script, address: str) -> None:
    def refuse(request: Any, context: grpc.ServicerContext) -> None:
        if np.frombuffer(request.raw_input_contents[0], "<f4")[0] == X[3, 0]:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not this one")

    script.infer = refuse
    events = [X[:1], X[1:2], X[:, :3], X[3:4], X[4:5]]

    async def ask() -> list[Result | ClientError]:
        async with AsyncClient(address) as client:
            return [each async for each in client.model("double").map(events, return_exceptions=True)]

    with Client(address) as client:
        model = client.model("double")
        unordered = sorted(model.map(events, ordered=False, return_exceptions=True), key=lambda each: each.index or 0)
        for answers in (list(model.map(events, return_exceptions=True)), unordered, asyncio.run(ask())):
            assert [each.index for each in answers] == [0, 1, 2, 3, 4]
            assert [type(each) for each in answers] == [Result, Result, InputError, RequestError, Result]
        with pytest.raises(RequestError) as error:
            list(model.map(events[3:]))
        assert error.value.index == 0
        assert "event 0 of map()" in error.value.__notes__
    with pytest.raises(ClosedError):
        list(model.map(events, return_exceptions=True))


def test_a_client_tells_what_is_served_and_waits_until_it_is(script: Script) -> None:
    script.ready = False
    with scripted_server(script) as address, Client(address) as client:
        assert not client.ready()
        assert client.models() == {}
        script.ready = True
        assert client.ready(timeout=30)
        assert client.models() == {"double": (address,)}
        assert not client.ready("other")
        script.models = ("double", "other")
        assert client.ready("other", timeout=30)
        assert client.models() == {"double": (address,), "other": (address,)}

        async def ask() -> tuple[bool, dict[str, tuple[str, ...]]]:
            async with AsyncClient(address) as other:
                return await other.ready("other", timeout=30), await other.models()

        assert asyncio.run(ask()) == (True, client.models())
    with pytest.raises(ClosedError):
        client.ready()


def test_representations_are_short_and_say_what_it_is(address: str) -> None:
    with Client(address) as client:
        model = client.model("double", 1)
        result = repr(model.result(X))
    assert repr(client) == f"Client('{address}')"
    assert repr(model) == "Model('double', version='1')"
    assert repr(AsyncClient(address)) == f"AsyncClient('{address}')"
    assert repr(AsyncClient(address).model("double")) == "AsyncModel('double')"
    assert re.fullmatch(r"Result\('double', version='1', \{y: float32 \(20, 4\)\}, server='.*', attempts=1, .*\)", result)


def test_many_waiting_tasks_hold_no_copies_of_their_requests(script: Script, address: str) -> None:
    """A request is serialized when there is room for it."""
    script.max_batch_size = 1 << 20
    script.infer = wait(0.05)
    rows = np.zeros((1 << 14, 4), np.float32)  # 256 KiB

    async def ask() -> None:
        async with AsyncClient(address, limits=Limits(in_flight=2)) as client:
            model = client.model("double")
            await model.infer(rows)
            tracemalloc.start()
            tasks = [asyncio.create_task(model.infer(rows)) for _ in range(200)]
            await asyncio.sleep(0.2)
            held = tracemalloc.get_traced_memory()[0]
            tracemalloc.stop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert held < 40 * rows.nbytes, f"{held} bytes for 200 waiting requests of {rows.nbytes} bytes"

    asyncio.run(ask())


def test_an_error_that_the_server_sends_is_not_tried_again(script: Script, address: str) -> None:
    for code in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN):
        script.infer, script.calls["ModelInfer"] = fail(code, "the model failed"), 0
        with Client(address) as client, pytest.raises(RequestError, match="the model failed"):
            client.model("double").infer(X[:1])
        assert script.calls["ModelInfer"] == 1
