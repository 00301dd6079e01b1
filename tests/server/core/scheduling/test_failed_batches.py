# SPDX-License-Identifier: Apache-2.0
"""Requests that fail together fail each with an error of its own: threads write the request's id on it, and tracebacks."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton

from hypersonic.server import errors
from hypersonic.server.backends.python.answer import _KINDS, _MODEL_ERRORS
from hypersonic.server.core.scheduling.batcher import DynamicBatcher
from hypersonic.server.errors import BackendError, CredentialsError, InstanceAwayError, ServerError, UnavailableError
from tests.server.conftest import Script, Serve, tensor, write_model
from tests.server.core.scheduling.batchers import batcher, enqueue, pending
from tests.server.core.scheduling.sequence_batchers import batcher as sequence_batcher

CLIENTS, EACH = 16, 12
BATCHING = "dynamic_batching { max_queue_delay_microseconds: 2000 }\n"


@pytest.fixture
def impatient_threads() -> Iterator[None]:
    """Threads take turns at every chance there is."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Callable[[], list[dict[str, str]]]:
    """The fields of the failures logged so far: model, request_id, client."""
    monkeypatch.setattr(logging.getLogger("hypersonic"), "propagate", True)
    return lambda: [fields for record in caplog.records if (fields := getattr(record, "fields", {})).get("client")]


@pytest.mark.usefixtures("impatient_threads")
def test_every_failure_of_a_batch_is_logged_under_its_own_id(
    serve: Serve, tmp_path: Path, failures: Callable[[], list[dict[str, str]]]
) -> None:
    script = Script(fail_runs=set(range(1000)), run_s=0.001)
    write_model(tmp_path / "m", config=BATCHING)

    def ask(client: triton.InferenceServerClient, number: int) -> list[str]:
        """The ids sent; each request is refused in words."""
        ids = [f"{number}-{n}" for n in range(EACH)]
        for request_id in ids:
            with pytest.raises(Exception, match=r"run \d+ failed"):
                client.infer("m", [tensor(np.zeros((1, 3), np.float32))], request_id=request_id)
        return ids

    with (
        serve(script, tmp_path / "m") as running,
        triton.InferenceServerClient(running.grpc) as client,
        ThreadPoolExecutor(CLIENTS) as pool,
    ):
        sent = [request_id for ids in pool.map(lambda number: ask(client, number), range(CLIENTS)) for request_id in ids]
    assert len(script.batches) < len(sent), "no two requests shared a run"
    assert sorted(fields["request_id"] for fields in failures()) == sorted(sent)


def fail(target: DynamicBatcher, error: ServerError) -> None:
    target.fail(target.take().shares, error)


def hang(target: DynamicBatcher, error: ServerError) -> None:
    """Twice each, which is once too often."""
    while shares := target.take().shares:
        target.put_back(shares, error)


@pytest.mark.parametrize("end", [fail, hang, DynamicBatcher.abandon, DynamicBatcher.suspend])
def test_requests_that_fail_together_have_errors_of_their_own(end: Callable[[DynamicBatcher, ServerError], None]) -> None:
    target, cause = batcher(), UnavailableError("gone")
    requests = enqueue(target, 1, 2, 3, 4)
    end(target, cause)
    assert all(request.completed and str(request.error) == "gone" for request in requests)
    assert len({id(error) for error in (cause, *(request.error for request in requests))}) == 5


@pytest.mark.parametrize("make", [batcher, sequence_batcher])
@pytest.mark.parametrize("shut", ["close", "abandon", "suspend"])
def test_a_closed_queue_refuses_each_request_with_an_error_of_its_own(make: Callable[[], DynamicBatcher], shut: str) -> None:
    target, cause = make(), UnavailableError("closed")
    getattr(target, shut)(cause)
    refusals = []
    for _ in range(3):
        with pytest.raises(UnavailableError, match="closed") as caught:
            target.enqueue(pending(1))
        refusals.append(caught.value)
    assert len({id(error) for error in (cause, *refusals)}) == 4
    assert cause.__traceback__ is None


def every_error() -> Iterator[ServerError]:
    """One of each kind, with whatever it is made from."""
    arguments: dict[type[ServerError], tuple[object, ...]] = {
        InstanceAwayError: ("away", 2.0), errors.ReplacedError: ("m", 3), CredentialsError: ("who", ),
        **dict.fromkeys((errors.ShuttingDownError, errors.QueueFullError, errors.QueueTimeoutError, errors.CancelledError), ()),
    }  # fmt: skip
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ServerError)]
    for kind in [*kinds, *_KINDS.values(), *_MODEL_ERRORS.values(), CredentialsError]:
        yield kind(*arguments.get(kind, ("a text",)))


def test_an_error_of_any_kind_is_copied_with_all_it_says() -> None:
    for error in every_error():
        error.model_name, error.__cause__ = "m", ValueError("why")
        twin = error.copy()
        assert type(twin) is type(error)
        assert (twin.args, str(twin), vars(twin), twin.__cause__) == (error.args, str(error), vars(error), error.__cause__)
        twin.request_id = "7"
        assert error.request_id is None


def test_a_request_keeps_no_error_that_somebody_else_may_write_on() -> None:
    cause = BackendError("all of them")
    requests = [pending(1) for _ in range(3)]
    requests[0].fail(cause)
    requests[1].end(cause)
    requests[2].error = cause
    assert len({id(error) for error in (cause, *(request.error for request in requests))}) == 4
