# SPDX-License-Identifier: Apache-2.0
"""The client against real gRPC servers that fail as each test says."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from typing import Any

import grpc
import numpy as np
import pytest

from hypersonic.client import (
    AllServersFailedError,
    AsyncClient,
    Client,
    ClosedError,
    DeadlineError,
    Health,
    Hedge,
    InputError,
    Limits,
    OtherServer,
    QueueFullError,
    Ragged,
    Rectangular,
    RequestError,
    Server,
    Timeout,
    UnknownModelError,
)
from tests.support.scripted_server import Script, fail, scripted_server, wait
from tests.support.waiting import wait_until

X = np.arange(80, dtype=np.float32).reshape(20, 4)


def held_until(release: threading.Event) -> Callable[[Any, grpc.ServicerContext], None]:
    """Every request waits for this."""

    def hold(_request: Any, _context: grpc.ServicerContext) -> None:
        release.wait(30)

    return hold


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(address) as connected:
        yield connected


def test_metadata_is_asked_once_and_answers_are_read_only(client: Client, script: Script) -> None:
    model = client.model("double")
    for _ in range(3):
        y = model.infer(X[:5])
    np.testing.assert_array_equal(y, 2 * X[:5])
    assert not y.flags.writeable
    assert (script.calls["ModelMetadata"], script.calls["ModelConfig"], script.calls["ModelInfer"]) == (1, 1, 3)
    assert (model.inputs[0].name, model.outputs[0].shape, model.max_batch_size) == ("x", (4,), 8)


def test_batches_above_the_maximum_are_split_and_joined_and_no_rows_make_no_call(client: Client, script: Script) -> None:
    model = client.model("double")
    np.testing.assert_array_equal(model.infer({"x": X}), 2 * X)
    assert sorted(script.rows) == [6, 7, 7]
    none = model.infer(X[:0])
    assert (none.shape, none.dtype, script.calls["ModelInfer"]) == ((0, 4), np.float32, 3)
    assert client.model("double").submit(X).result().output.shape == (20, 4)


def test_lists_of_arrays_travel_as_one_request_or_as_one_each(client: Client, script: Script) -> None:
    entries = [X[:3], X[:0], X[3:7]]
    for batch, calls in ((Rectangular(entries), [7]), (Ragged(entries), [3, 4])):
        script.rows.clear()
        answers = client.model("double").infer(batch)
        assert [answer.tolist() for answer in answers] == [(2 * entry).tolist() for entry in entries]
        assert sorted(script.rows) == calls
    assert client.model("double").infer(Rectangular([])) == client.model("double").infer(Ragged([])) == []


@pytest.mark.parametrize("ordered", [True, False])
def test_map_answers_every_event_once_and_reads_no_further_than_the_window(client: Client, ordered: bool) -> None:
    taken = 0

    def events() -> Iterator[np.ndarray]:
        nonlocal taken
        for n in range(100):
            taken += 1
            yield np.full((n % 3, 4), n, np.float32)

    seen = []
    for result in client.model("double").map(events(), ordered=ordered):
        assert (result.output == 2 * result.index).all()
        assert len(result.output) == result.index % 3
        seen.append(result.index)
        assert taken - len(seen) <= 32, "twice the requests in flight"
    assert sorted(seen) == list(range(100))
    assert not ordered or seen == sorted(seen)


def test_a_map_that_is_left_cancels_what_is_in_flight(client: Client, script: Script) -> None:
    script.infer = wait(0.2)
    for _ in client.model("double").map(X[:1] for _ in range(1000)):
        break
    wait_until(lambda: not client.engine._running)
    assert script.calls["ModelInfer"] <= 40


def test_numpy_that_does_not_fit_is_refused_before_anything_is_sent(client: Client, script: Script) -> None:
    model = client.model("double")
    cases: list[tuple[Any, str]] = [
        (np.zeros((2, 3), np.float32), r"input 'x' of model 'double' has shape \(2, 3\), expected \(rows, 4\)"),
        ({"z": X}, "model 'double' has no input 'z', only x"),
        ({}, "model 'double' needs the input 'x', got none"),
        (np.array([["a"] * 4]), "expected float32"),
    ]
    for inputs, words in cases:
        with pytest.raises(InputError, match=words):
            model.infer(inputs)
    assert not script.calls["ModelInfer"]


def test_a_row_larger_than_a_message_is_refused(address: str) -> None:
    with Client(address, limits=Limits(message_bytes=1 << 16)) as client, pytest.raises(InputError, match="one row for model"):
        client.model("double").infer(X[:1])


def test_large_requests_are_split_by_bytes_too(address: str, script: Script) -> None:
    with Client(address, limits=Limits(message_bytes=(1 << 16) + 40)) as client:
        np.testing.assert_array_equal(client.model("double").infer(X[:6]), 2 * X[:6])
    assert sorted(script.rows) == [2, 2, 2]


def test_an_unknown_model_says_which_models_there_are(client: Client) -> None:
    with pytest.raises(UnknownModelError, match=r"has no model 'dubble' \(it has double\)"):
        client.model("dubble").infer(X)


def test_an_error_of_the_request_reaches_the_caller_at_once(client: Client, script: Script) -> None:
    script.infer = fail(grpc.StatusCode.INVALID_ARGUMENT, "no such thing")
    with pytest.raises(RequestError, match="INVALID_ARGUMENT: no such thing"):
        client.model("double").infer(X[:1])
    assert script.calls["ModelInfer"] == 1


def test_a_busy_server_is_asked_again_until_it_answers(client: Client, script: Script) -> None:
    left = 4

    def busy(_request: Any, context: grpc.ServicerContext) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")

    script.infer = busy
    for result in (client.model("double").result(X[:1]), client.model("double").submit(X[:1]).result()):
        np.testing.assert_array_equal(result.output, 2 * X[:1])
    assert script.calls["ModelInfer"] == 6
    one = client.statistics().servers[0]
    assert (one.sent, one.failed, one.retried) == (6, 4, 4)


def test_one_deadline_holds_for_all_attempts_and_the_server_is_told_of_it(address: str, script: Script) -> None:
    told: list[float] = []

    def slow(_request: Any, context: grpc.ServicerContext) -> None:
        told.append(context.time_remaining())
        time.sleep(0.3)

    script.infer = slow
    with Client(address, timeout=Timeout(total_s=1.0, attempt_s=0.2), retry=(OtherServer(50),)) as client:
        model = client.model("double")
        assert model.spec
        with pytest.raises(DeadlineError) as error:
            model.infer(X[:1])
    assert 1 <= len(error.value.attempts) <= 6
    assert max(told) < 0.3, "the time of an attempt, not the total of 1 s"


def test_a_second_server_answers_when_the_first_does_not(script: Script, address: str) -> None:
    broken = Script(infer=fail(grpc.StatusCode.UNAVAILABLE))
    with scripted_server(broken) as other, Client([other, address], health=Health(failures=2, first_s=60)) as client:
        results = list(client.model("double").map(X[n : n + 1] for n in range(20)))
        states = {one.server: one.state for one in client.statistics().servers}
    assert {result.server for result in results} == {address}
    assert states[other].startswith("left out after failures: scripted")
    assert broken.calls["ModelInfer"] <= 2 + 32, "no more after it was left out"


def test_a_server_that_was_left_out_is_probed_and_comes_back(script: Script) -> None:
    script.infer = fail(grpc.StatusCode.UNAVAILABLE)
    with scripted_server(script) as address:
        health = Health(failures=1, first_s=0.05, longest_s=0.1)
        with Client(address, retry=(), health=health) as client:
            with pytest.raises(AllServersFailedError):
                client.model("double").infer(X[:1])
            script.ready = False
            before = script.calls["ServerReady"]
            wait_until(lambda: script.calls["ServerReady"] > before + 2)
            assert client.statistics().servers[0].state.startswith("left out after failures")
            script.ready, script.infer = True, lambda _request, _context: None
            wait_until(lambda: client.statistics().servers[0].state == "up")
            np.testing.assert_array_equal(client.model("double").infer(X[:1]), 2 * X[:1])


def test_a_server_that_rejects_repository_index_gets_no_new_work_while_its_running_calls_end(
    script: Script, address: str
) -> None:
    release = threading.Event()
    held = Script(infer=held_until(release))
    with scripted_server(held) as limited, Client([limited, address], health=Health(index_s=0.1)) as client:
        assert client.model("double").spec
        wait_until(lambda: [one.state for one in client.statistics().servers] == ["up", "up"])
        futures = [client.model("double").submit(X[:1]) for _ in range(12)]
        wait_until(lambda: held.calls["ModelInfer"])
        held.index_code = grpc.StatusCode.CANCELLED
        wait_until(lambda: any("rejects RepositoryIndex" in one.state for one in client.statistics().servers))
        before = held.calls["ModelInfer"]
        results = [client.model("double").result(X[:1]) for _ in range(20)]
        assert {result.server for result in results} == {address}
        release.set()
        assert {future.result().server for future in futures} <= {limited, address}
        assert held.calls["ModelInfer"] == before
        held.index_code = None
        wait_until(lambda: all(one.state == "up" for one in client.statistics().servers))


def test_models_are_asked_of_the_servers_that_have_them(script: Script, address: str) -> None:
    with scripted_server(Script(models=("other",))) as second, Client([address, second]) as client:
        for name, server in (("double", address), ("other", second)):
            assert {client.model(name).result(X[:1]).server for _ in range(10)} == {server}


def test_a_server_without_repository_index_may_have_any_model(script: Script, address: str) -> None:
    script.index_code = grpc.StatusCode.UNIMPLEMENTED
    with Client(address) as client:
        np.testing.assert_array_equal(client.model("double").infer(X[:1]), 2 * X[:1])


def test_limits_hold_and_a_full_queue_is_an_error_only_if_asked(address: str, script: Script) -> None:
    release = threading.Event()
    script.infer = held_until(release)
    with Client(address, limits=Limits(in_flight=2)) as client:
        model = client.model("double")
        futures = [model.submit(X[:1]) for _ in range(2)]
        with pytest.raises(QueueFullError, match="2 requests or"):
            model.submit(X[:1], block=False)
        release.set()
        assert [future.result().output.shape for future in futures] == [(1, 4)] * 2
        assert model.submit(X[:1], block=False).result()


def test_a_cancelled_request_gives_back_its_room_and_ends_its_call(address: str, script: Script) -> None:
    ended = threading.Event()

    def held(_request: Any, context: grpc.ServicerContext) -> None:
        context.add_callback(ended.set)
        ended.wait(30)

    script.infer = held
    with Client(address, limits=Limits(in_flight=1)) as client:
        future = client.model("double").submit(X[:1])
        wait_until(lambda: script.calls["ModelInfer"])
        assert future.cancel()
        assert ended.wait(30), "the server saw the end of the call"
        script.infer = lambda _request, _context: None
        assert client.model("double").submit(X[:1]).result()
        with pytest.raises(CancelledError):
            future.result()


def test_a_hedge_takes_the_first_answer(script: Script, address: str) -> None:
    release = threading.Event()
    slow = Script(infer=held_until(release))
    with scripted_server(slow) as other, Client([other, address], hedge=Hedge(0.05)) as client:
        results = [client.model("double").result(X[:1]) for _ in range(20)]
        assert {result.server for result in results} == {address}
        hedged = sum(one.hedged for one in client.statistics().servers)
        assert hedged >= slow.calls["ModelInfer"]
        assert hedged
        release.set()


def test_close_ends_what_runs_and_leaves_no_thread(address: str, script: Script) -> None:
    before = set(threading.enumerate())
    release = threading.Event()
    script.infer = held_until(release)
    client = Client(address, limits=Limits(in_flight=3))
    futures = [client.model("double").submit(X[:1]) for _ in range(3)]
    client.close()
    for future in futures:
        with pytest.raises(ClosedError):
            future.result()
    release.set()
    with pytest.raises(ClosedError):
        client.model("double").infer(X[:1])
    mine = [thread for thread in set(threading.enumerate()) - before if "ThreadPoolExecutor" not in thread.name]
    for thread in mine:
        thread.join(30)
    assert [thread.name for thread in mine if thread.is_alive()] == []


def test_a_client_that_is_dropped_without_close_leaves_no_thread(address: str) -> None:
    before = set(threading.enumerate())
    for _ in range(3):
        np.testing.assert_array_equal(Client(address).model("double").infer(X[:1]), 2 * X[:1])
    gc.collect()
    wait_until(lambda: not [one for one in set(threading.enumerate()) - before if "ThreadPoolExecutor" not in one.name])


def test_tokens_and_headers_are_those_of_each_server(script: Script, address: str) -> None:
    tokens = iter(["first", "second", "third", "fourth", "fifth", "sixth", "seventh"])
    server = Server(address, token=lambda: next(tokens), headers={"X-Site": "lpc"})
    with Client(server) as client:
        client.model("double").infer(X[:1])
    assert {headers["x-site"] for headers in script.headers} == {"lpc"}
    sent = [headers["authorization"] for headers in script.headers]
    assert sent == ["Bearer first", "Bearer second", *sent[2:]]
    assert sent[-1] != sent[2], "asked for each request"


def test_asyncio_gets_the_same_answers(address: str) -> None:
    async def go() -> None:
        async with AsyncClient(address, limits=Limits(in_flight=3)) as client:
            model = client.model("double")
            np.testing.assert_array_equal(await model.infer(X), 2 * X)
            for ordered in (True, False):
                seen = []
                async for result in model.map((X[n : n + 2] for n in range(15)), ordered=ordered):
                    np.testing.assert_array_equal(result.output, 2 * X[result.index : result.index + 2])
                    seen.append(result.index)
                assert sorted(seen) == list(range(15))
                assert not ordered or seen == sorted(seen)
            answers = await asyncio.gather(*(model.infer(X[n : n + 1]) for n in range(20)))
            assert [answer[0, 0] for answer in answers] == [2 * X[n, 0] for n in range(20)]

    asyncio.run(go())


def test_a_cancelled_task_gives_back_its_room(address: str, script: Script) -> None:
    release = threading.Event()

    async def go() -> None:
        async with AsyncClient(address, limits=Limits(in_flight=1)) as client:
            model = client.model("double")
            await model.infer(X[:1])
            script.infer = held_until(release)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.gather(*(model.infer(X[:1]) for _ in range(5))), 0.3)
            script.infer = lambda _request, _context: None
            release.set()
            assert (await model.infer(X[:1])).shape == (1, 4)

    asyncio.run(go())
