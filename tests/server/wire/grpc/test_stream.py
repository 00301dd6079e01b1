# SPDX-License-Identifier: Apache-2.0
"""ModelStreamInfer over real gRPC, against the in-memory backend."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any, TypeAlias

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from hypersonic.server.wire.grpc.grpcio import stream_requests
from tests.server.conftest import Running, Script, Serve
from tests.support.waiting import wait_until

Request: TypeAlias = service_pb2.ModelInferRequest
Stub: TypeAlias = service_pb2_grpc.GRPCInferenceServiceStub


def request(name: str = "", rows: int = 1, value: float = 1.0, model: str = "m") -> Request:
    message = Request(model_name=model, id=name)
    message.inputs.add(name="x", datatype="FP32", shape=[rows, 3])
    message.raw_input_contents.append(np.full((max(rows, 0), 3), value, np.float32).tobytes())
    return message


@pytest.fixture
def running(serve: Serve) -> Iterator[Running]:
    with serve(Script(slots=2, instances=2)) as server:
        yield server


@pytest.fixture
def stub(running: Running) -> Iterator[Stub]:
    with grpc.insecure_channel(running.grpc) as channel:
        yield Stub(channel)


def answers(stub: Stub, *requests: Request, **metadata: str) -> list[service_pb2.ModelStreamInferResponse]:
    return list(stub.ModelStreamInfer(iter(requests), timeout=60, metadata=tuple(metadata.items())))


def y(response: service_pb2.ModelStreamInferResponse) -> list[float]:
    return np.frombuffer(response.infer_response.raw_output_contents[0], np.float32).tolist()


def test_answers_come_in_the_order_of_the_requests_and_say_that_they_are_final(stub: Stub) -> None:
    got = answers(stub, *(request(str(n), value=n) for n in range(40)))
    assert [a.infer_response.id for a in got] == [str(n) for n in range(40)]
    assert [y(a) for a in got] == [[3.0 * n] for n in range(40)]
    assert all(a.infer_response.parameters["triton_final_response"].bool_param for a in got)


def test_where_grpcio_has_other_insides_a_thread_reads_each_stream(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_requests, "_NEEDED", ("what_a_later_version_has_not",))
    before = set(threading.enumerate())
    with serve(Script(slots=2, instances=2)) as running, grpc.insecure_channel(running.grpc) as channel:
        stub = Stub(channel)
        assert [y(a) for a in answers(stub, *(request(value=n) for n in range(40)))] == [[3.0 * n] for n in range(40)]
        idle = stub.ModelStreamInfer(iter(threading.Event().wait, True))
        idle.cancel()
        readers = {thread for thread in threading.enumerate() if thread.name == "grpc-stream-reader"}
    for thread in readers - before:
        thread.join(60)
        assert not thread.is_alive()


def test_a_bad_request_is_answered_with_an_error_and_the_stream_goes_on(stub: Stub) -> None:
    got = answers(stub, request("a", model="none"), request("b", rows=201), request("c"), request("d", rows=0))
    assert [(a.error_message, a.infer_response.id) for a in got] == [
        ("Request for unknown model: 'none' is not found", "a"),
        ("[request id: b] inference request batch-size must be <= 200 for 'm'", "b"),
        ("", "c"),
        ("[request id: d] inference request batch-size must be >= 1 for 'm'", "d"),
    ]


def test_bytes_that_are_no_request_are_an_error_of_that_message_alone(running: Running) -> None:
    with grpc.insecure_channel(running.grpc) as channel:
        call: Any = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
        got = [
            service_pb2.ModelStreamInferResponse.FromString(a) for a in call(iter([b"\xff", request("x").SerializeToString()]))
        ]
    assert "Unable to parse request" in got[0].error_message
    assert got[1].infer_response.id == "x"


def test_a_failed_run_is_an_error_or_the_end_of_the_stream_as_the_client_wants(serve: Serve) -> None:
    with serve(Script(fail_runs={1, 3})) as running, grpc.insecure_channel(running.grpc) as channel:
        stub = Stub(channel)
        (failed,) = answers(stub, request("a"))
        assert (failed.error_message, failed.infer_response.id) == ("run 1 failed", "a")
        assert failed.infer_response.parameters["triton_final_response"].bool_param
        assert y(answers(stub, request("b"))[0]) == [3.0]
        with pytest.raises(grpc.RpcError) as caught:
            answers(stub, request("c"), triton_grpc_error="true")
        assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.INTERNAL, "run 3 failed")


def test_requests_of_a_stream_share_runs(serve: Serve) -> None:
    with serve(Script(slots=1, gate=threading.Event())) as running, grpc.insecure_channel(running.grpc) as channel:
        waiting: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        call = Stub(channel).ModelStreamInfer(iter(waiting.get, None), timeout=60)
        waiting.put(request("first"))
        assert running.script.started.acquire(timeout=20)
        running.script.open_gate()
        assert next(call).infer_response.id == "first"
        waiting.put(None)
        assert list(call) == []


def test_when_the_client_goes_away_its_waiting_requests_do_and_their_bytes_are_free(serve: Serve) -> None:
    with serve(Script(slots=1, gate=threading.Event())) as running, grpc.insecure_channel(running.grpc) as channel:
        forever = threading.Event()

        def requests() -> Iterator[Request]:
            for n in range(5):
                yield request(str(n))
            forever.wait(60)

        call = Stub(channel).ModelStreamInfer(requests())
        assert running.script.started.acquire(timeout=20)
        admission = running.server.service.admission
        wait_until(lambda: admission.requests == 5)
        call.cancel()
        wait_until(lambda: admission.requests == 0)
        running.script.open_gate()
        forever.set()
        wait_until(lambda: len(running.script.batches) == 1)
        assert admission.size_bytes == 0


def test_many_streams_at_once_are_served(running: Running) -> None:
    results: queue.SimpleQueue[list[str]] = queue.SimpleQueue()

    def client(number: int) -> None:
        with grpc.insecure_channel(running.grpc, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            got = answers(Stub(channel), *(request(f"{number}.{n}", value=n) for n in range(20)))
            results.put([a.infer_response.id for a in got])

    threads = [threading.Thread(target=client, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    got = sorted(results.get() for _ in threads)
    assert got == sorted([f"{number}.{n}" for n in range(20)] for number in range(20))
