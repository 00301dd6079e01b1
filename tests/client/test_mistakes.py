# SPDX-License-Identifier: Apache-2.0
"""Mistakes of the client's users: each has an error that says what to write, and none waits for ever."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from hypersonic.client import (
    AllServersFailedError,
    Attempt,
    Client,
    ClosedError,
    Code,
    DeadlineError,
    Fallback,
    Health,
    InputError,
    Limits,
    OtherServer,
    Rectangular,
    SameServer,
    Settings,
    Timeout,
)
from hypersonic.client.gate import Gate
from hypersonic.client.servers import AddressError
from tests.support.scripted_server import Script, scripted_server

X = np.ones((3, 4), np.float32)
ADDRESS = "localhost:8001"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with scripted_server(Script()) as address:
        yield address


@pytest.mark.parametrize(
    "wrong", ["http://localhost:8001", "grpc://localhost:8001", "localhost", "local host:8001", "a:8001/x"]
)
def test_an_address_is_a_host_and_a_port(wrong: str) -> None:
    with pytest.raises(AddressError, match=r"expected HOST:PORT of its gRPC port, such as localhost:8001$"):
        Client(wrong)


def test_several_servers_in_one_text_are_refused_with_the_right_form() -> None:
    with pytest.raises(AddressError, match="several servers are a list of addresses"):
        Client("a:8001,b:8001")


def odd(value: Any) -> Any:
    """A value of a type that mypy would refuse."""
    return value


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: Client(odd(None)), TypeError, "a server is None, expected an address"),
        (lambda: Client(odd([8001])), TypeError, "a server is 8001, expected an address"),
        (lambda: Client(ADDRESS, timeout=odd("5")), TypeError, r"timeout is '5', expected seconds or Timeout\(\.\.\)"),
        (lambda: Client(ADDRESS, retry=odd([len])), TypeError, r"a retry policy is .*, expected SameServer\(\.\.\)"),
        (lambda: Client(ADDRESS, retry=[Fallback(dict), OtherServer()]), ValueError, "put the Fallback last"),
        (lambda: Timeout(total_s=-1), ValueError, r"Timeout\.total_s is -1, expected more than 0"),
        (lambda: Health(ping_s=0), ValueError, r"Health\.ping_s is 0, expected more than 0"),
        (
            lambda: Client(ADDRESS, retry=odd(3)),
            TypeError,
            "retry is 3, expected a policy such as OtherServer",
        ),
        (lambda: Fallback(odd(3)), TypeError, "a Fallback is made of 3, expected a function .* or a LocalServer"),
        (lambda: Timeout(total_s=odd("60")), TypeError, r"Timeout\.total_s is '60', expected a number"),
        (lambda: Settings(compression=odd("zstd")), ValueError, "compression is 'zstd', expected '', 'gzip', 'deflate'"),
        (lambda: Settings(shared_memory=odd("yes")), ValueError, "shared_memory is 'yes', expected 'off', 'auto'"),
        (lambda: Limits(in_flight=0), ValueError, r"Limits\.in_flight is 0, expected more than 0"),
    ],
)
def test_settings_are_checked_when_they_are_made(make: Callable[[], object], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        make()


@pytest.mark.parametrize("retry", [SameServer(2), [SameServer(2)], (SameServer(2),)])
def test_policies_are_given_as_one_a_list_or_a_tuple(retry: Any) -> None:
    assert Client(ADDRESS, retry=retry).settings.retry.policies == (SameServer(2),)


def test_a_version_may_be_a_number(address: str) -> None:
    with Client(address) as client:
        assert client.model("double", 1).infer(X).tolist() == (2 * X).tolist()


@pytest.mark.parametrize("value", [None, [1]])
def test_a_parameter_of_another_type_is_refused_by_name(address: str, value: Any) -> None:
    with Client(address) as client, pytest.raises(InputError, match=r"parameter 'priority' is .*, expected a bool, an int"):
        client.model("double").infer(X, parameters={"priority": value})


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_a_parameter_of_more_than_64_bits_is_refused_by_name(address: str, value: int) -> None:
    with (
        Client(address) as client,
        pytest.raises(InputError, match=f"parameter 'priority' is {value}, expected an int of 64 bits"),
    ):
        client.model("double").infer(X, parameters={"priority": value})


def test_only_infer_takes_entries(address: str) -> None:
    with Client(address) as client:
        assert len(client.model("double").infer(Rectangular([X, X]))) == 2
        with pytest.raises(InputError, match=r"Rectangular is for infer\(\) only"):
            client.model("double").submit(Rectangular([X, X]))


def test_attempts_that_failed_alike_are_one_line() -> None:
    refused = Attempt("a:1", Code.UNAVAILABLE, "no connection", 0.1)
    other = Attempt("b:1", Code.ABORTED, "restarting", 0.25)
    assert str(AllServersFailedError("model 'm'", (refused, other, refused))) == (
        "model 'm'; 3 attempts failed:\n  2 times a:1: UNAVAILABLE: no connection\n  b:1: ABORTED after 0.250 s: restarting"
    )
    assert str(DeadlineError("model 'm'", (other,))).startswith("model 'm'; 1 attempt failed:\n")
    assert str(DeadlineError("model 'm'", ())) == "model 'm'; 0 attempts failed"


def test_an_interrupted_wait_for_room_takes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C in a notebook the client goes on."""
    gate = Gate(Limits(in_flight=1, bytes_in_flight=10))
    gate.wait(10)

    def interrupted(_event: threading.Event, _timeout: float | None = None) -> bool:
        raise KeyboardInterrupt

    def granted_and_interrupted(event: threading.Event, _timeout: float | None = None) -> bool:
        gate.leave(10)
        assert event.is_set()
        raise KeyboardInterrupt

    for wait in (interrupted, granted_and_interrupted):
        with monkeypatch.context() as patch:
            patch.setattr(threading.Event, "wait", wait)
            with pytest.raises(KeyboardInterrupt):
                gate.wait(5)
    assert gate.try_enter(10), "no room is left behind"
    assert not gate.try_enter(1)


def test_the_copies_of_a_client_share_their_connections(address: str) -> None:
    """dask unpickles a client for every task."""
    with Client(address) as client:
        message = pickle.dumps(client)
        first, second = pickle.loads(message), pickle.loads(message)
        assert first.engine is second.engine is not client.engine
        assert first.model("double").infer(X).tolist() == (2 * X).tolist()
        first.close()
        with pytest.raises(ClosedError):
            second.model("double").infer(X)
        third = pickle.loads(message)
        assert third.model("double").infer(X).tolist() == (2 * X).tolist()
        third.close()
        assert client.model("double").infer(X).tolist() == (2 * X).tolist()
