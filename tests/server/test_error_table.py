# SPDX-License-Identifier: Apache-2.0
"""Triton's error table: every row asked over gRPC and HTTP, each answer's code and whole text compared."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc
import pytest
from tritonclient.grpc import service_pb2_grpc

from hypersonic.server.wire.grpc import messages
from tests.server.conftest import Running, Script, write_model
from tests.server.error_rows import GUARDED, ID, OPEN, PLAIN, ROWS
from tests.server.onnx_graphs import tensors
from tests.server.questions import (
    Tensor,
    by_grpc,
    by_http,
    in_memory,
    infer,
    load,
    place,
    register,
    serving,
    statistics,
    unload,
)
from tests.support.waiting import wait_until

Y = tensors("output", ("y", "FP32", [1]))
MODELS = {
    "pair": "max_batch_size: 4\n" + tensors("input", ("a", "FP32", [3]), ("b", "FP32", [3])) + Y,
    "text": "max_batch_size: 4\n" + tensors("input", ("x", "BYTES", [2])) + Y,
    "optional": tensors("input", ("a", "FP32", [3])) + tensors("input", ("b", "FP32", [3]), extra="optional: true") + Y,
    "stream": "model_transaction_policy { decoupled: true }\n" + tensors("input", ("x", "FP32", [3])) + Y,
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Running]]:
    """plain: as started without options. open: shared memory allowed, with region r of 64 bytes; explicit. guarded: groups."""
    repository = tmp_path_factory.mktemp("models") / "r"
    write_model(repository)
    (write_model(repository, "broken") / "1" / "broken").write_text("no card")
    for name, config in MODELS.items():
        write_model(repository, name)
        (repository / name / "config.pbtxt").write_text(f'backend: "sum"\n{config}')
    key = f"/table_{uuid4().hex}"
    with ExitStack() as stack:
        named = {PLAIN: stack.enter_context(serving(repository))}
        explicit: dict[str, Any] = {"model_control_mode": "explicit", "load_model": ("m",), "allow_client_shm": True}
        named[OPEN] = stack.enter_context(serving(repository, **explicit))
        groups: dict[str, Any] = {
            "grpc_restricted_protocol": ("statistics:key=v",),
            "http_restricted_api": ("statistics:key=v",),
        }
        named[GUARDED] = stack.enter_context(serving(repository, **groups))
        descriptor = os.open(f"/dev/shm{key}", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        stack.callback(os.unlink, f"/dev/shm{key}")
        stack.callback(os.close, descriptor)
        os.truncate(descriptor, 64)
        assert by_grpc(named[OPEN], register("r", key)) == ("OK", "")
        yield named


@pytest.mark.parametrize("name", ROWS)
def test_each_row_answers_with_its_code_and_text_on_both_protocols(servers: dict[str, Running], name: str) -> None:
    server, asked, code, status, text, http_text = ROWS[name]
    running = servers[server]
    assert by_grpc(running, asked) == (code, text)
    assert by_http(running, asked) == (status, http_text or text)
    wait_until(lambda: running.server.service.admission.size_bytes == running.server.service.admission.requests == 0)


def test_a_stream_tells_each_row_of_inference_and_goes_on(servers: dict[str, Running]) -> None:
    for server in (PLAIN, OPEN):
        asked = [row for row in ROWS.values() if (row.server, row.asked.rpc) == (server, "ModelInfer")]
        rows = [row for row in asked if row.asked.message.model_name != "stream"]  # it is for streams
        with grpc.insecure_channel(servers[server].grpc) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            answers = stub.ModelStreamInfer(iter([*(row.asked.message for row in rows), infer(Tensor()).message]), timeout=60)
            assert [answer.error_message for answer in answers] == [*(row.text for row in rows), ""]


def test_the_same_requests_are_answered_when_nothing_is_wrong(servers: dict[str, Running]) -> None:
    """The requests that the rows of the table change."""
    placed = infer(Tensor(), outputs=("y",), place=place())
    for asked in (infer(Tensor()), placed, in_memory(), statistics("m"), unload("m"), load("m")):
        assert by_grpc(servers[OPEN], asked) == ("OK", ""), asked
        assert by_http(servers[OPEN], asked) == (200, ""), asked


def test_a_load_without_a_name_is_refused(servers: dict[str, Running]) -> None:
    """HTTP has no path for it."""
    assert by_grpc(servers[OPEN], load("")) == ("INVALID_ARGUMENT", "Model name cannot be empty.")
    assert by_http(servers[OPEN], load(""))[0] == 404


# rows that need a server in a certain state

QUEUE = "dynamic_batching { default_queue_policy { max_queue_size: %d %s } }"
#: a request's own timeout counts where it is shorter than the default
TIMEOUT = "allow_timeout_override: true default_timeout_microseconds: 600000000"


def test_a_full_queue_and_a_timeout_in_it_are_told_on_both_protocols(tmp_path: Path) -> None:
    write_model(tmp_path / "r", config=QUEUE % (1, ""))
    write_model(tmp_path / "r", "late", QUEUE % (0, TIMEOUT))
    gate = threading.Event()
    full = ID + "Exceeds maximum queue size"
    with serving(tmp_path / "r", Script(gate=gate, slots=1)) as running, ThreadPoolExecutor(8) as pool:
        models = {name: running.server.repository.model(name) for name in ("m", "late")}
        under_way: list[Future[Any]] = [pool.submit(by_grpc, running, infer(Tensor(), model=name)) for name in models]
        wait_until(lambda: len(running.script.batches) == 2)
        under_way.append(pool.submit(by_http, running, infer(Tensor())))
        wait_until(lambda: models["m"].waiting == 1)
        assert by_grpc(running, infer(Tensor())) == ("UNAVAILABLE", full)
        assert by_http(running, infer(Tensor())) == (503, full)
        expired = infer(Tensor(), model="late", timeout=1000)
        assert by_grpc(running, expired) == ("UNAVAILABLE", "Request timeout expired")
        assert by_http(running, expired) == (503, "Request timeout expired")
        gate.set()
        assert [answer.result(60) for answer in under_way] == [("OK", ""), ("OK", ""), (200, "")]


def test_a_server_that_shuts_down_says_so_on_both_protocols(tmp_path: Path) -> None:
    write_model(tmp_path / "r")
    text = "GRPC server is shutting down and has stopped accepting new requests."
    with serving(tmp_path / "r") as running:
        running.server.service.admission.close()
        assert by_grpc(running, infer(Tensor())) == ("UNAVAILABLE", text)
        assert by_http(running, infer(Tensor())) == (503, text)


def test_an_answer_above_grpcs_limit_is_refused_and_http_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(tmp_path / "r")
    monkeypatch.setattr(messages, "MAX_MESSAGE_BYTES", 2**16 + 4)
    with serving(tmp_path / "r") as running:
        text = f"Response has byte size 8 which exceeds gRPC's byte size limit {2**16 + 4}."
        assert by_grpc(running, infer(Tensor())) == ("INVALID_ARGUMENT", text)
        assert by_http(running, infer(Tensor())) == (200, "")
