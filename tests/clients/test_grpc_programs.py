# SPDX-License-Identifier: Apache-2.0
"""The published examples that only gRPC has: callbacks, streams, decoupled models, typed contents, the raw stub, channels.

simple_grpc_async_infer_client, _aio_infer_client, _sequence_stream_infer_client, _aio_sequence_stream_infer_client,
_custom_repeat, _keepalive_client, _custom_args_client, grpc_client, grpc_explicit_{int,int8,byte}_content_client.
"""

from __future__ import annotations

import asyncio
import queue
import uuid
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import aio, service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException, deserialize_bytes_tensor

from tests.clients.calls.examples import stepped, steps, totalled
from tests.clients.calls.grpc_examples import WAIT_S, A, Answers, B, answer, check_sums, operands, put, tensor
from tests.clients.conftest import FLAVOURS, Asked, Flavour
from tests.reference.servers import Served

GRPC = [flavour for flavour in FLAVOURS if flavour.is_grpc]


def test_answers_by_callback(simple: Asked) -> None:
    answers: Answers = queue.SimpleQueue()
    outputs = [triton.InferRequestedOutput(name) for name in ("OUTPUT0", "OUTPUT1")]
    with triton.InferenceServerClient(simple.server.grpc) as client:
        for _ in range(8):
            client.async_infer(simple.model, operands(), partial(put, answers), outputs=outputs, client_timeout=WAIT_S)
        for _ in range(8):
            check_sums(answer(answers))


def test_errors_by_callback(simple: Asked) -> None:
    answers: Answers = queue.SimpleQueue()
    with triton.InferenceServerClient(simple.server.grpc) as client:
        client.async_infer("nope", operands(), partial(put, answers))
        result, error = answers.get(timeout=WAIT_S)
    assert result is None
    assert "Request for unknown model: 'nope' is not found" in error.message()


def test_coroutines_at_the_same_time(simple: Asked) -> None:
    async def main() -> list[Any]:
        async with aio.InferenceServerClient(simple.server.grpc) as client:
            return await asyncio.gather(*(client.infer(simple.model, operands()) for _ in range(8)))

    for result in asyncio.run(main()):
        check_sums(result)


def test_the_id_comes_back(simple: Asked) -> None:
    with triton.InferenceServerClient(simple.server.grpc) as client:
        assert client.infer(simple.model, operands(), request_id="7").get_response().id == "7"


@pytest.mark.parametrize("flavour", GRPC, ids=[flavour.name for flavour in GRPC])
def test_keepalive(simple: Asked, flavour: Flavour) -> None:
    options = flavour.module.KeepAliveOptions(2**31 - 1, 20000, False, 2)
    with flavour.client(simple.server, keepalive_options=options) as client:
        check_sums(client.infer(simple.model, operands(module=flavour.module), headers={"test": "1"}))


@pytest.mark.parametrize("flavour", GRPC, ids=[flavour.name for flavour in GRPC])
def test_channel_arguments(simple: Asked, flavour: Flavour) -> None:
    arguments = [
        ("grpc.max_send_message_length", 1 << 20),
        ("grpc.max_receive_message_length", 1 << 20),
        ("grpc.keepalive_time_ms", 2**31 - 1),
        ("grpc.keepalive_timeout_ms", 20000),
        ("grpc.keepalive_permit_without_calls", False),
        ("grpc.http2.max_pings_without_data", 2),
        ("grpc.dns_enable_srv_queries", 1),
    ]
    with flavour.client(simple.server, channel_args=arguments) as client:
        check_sums(client.infer(simple.model, operands(module=flavour.module), headers={"test": "1"}))


def test_deadline_of_the_client(server: Served) -> None:
    x = np.array([[2000]], np.int32)
    with (
        triton.InferenceServerClient(server.grpc) as client,
        pytest.raises(InferenceServerException, match="Deadline Exceeded"),
    ):
        client.infer("slow", [tensor("INPUT0", x, "INT32")], client_timeout=0.2)


def typed(model: str, datatype: str, **contents: list[Any]) -> Any:
    """A request whose inputs lie in typed contents; both outputs asked for."""
    request = service_pb2.ModelInferRequest(model_name=model, id="typed")
    field = {"INT8": "int_contents", "INT32": "int_contents", "BYTES": "bytes_contents"}[datatype]
    for name, values in contents.items():
        tensor = request.inputs.add(name=name, datatype=datatype, shape=[1, len(values)])
        getattr(tensor.contents, field).extend(values)
        request.outputs.add(name=name.replace("IN", "OUT"))
    return request


@pytest.mark.parametrize("name", ["simple", "simple_int8"])
def test_integers_in_typed_contents(simple: Asked, name: str) -> None:
    datatype, kind = ("INT8", np.int8) if name.endswith("int8") else ("INT32", np.int32)
    with grpc.insecure_channel(simple.server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        request = typed(simple.named(name), datatype, INPUT0=list(range(16)), INPUT1=[1] * 16)
        response = stub.ModelInfer(request, timeout=WAIT_S)
        assert [(output.name, list(output.shape)) for output in response.outputs] == [
            ("OUTPUT0", [1, 16]),
            ("OUTPUT1", [1, 16]),
        ]
        sums, differences = (np.frombuffer(raw, kind) for raw in response.raw_output_contents)
        np.testing.assert_array_equal(sums, np.arange(1, 17))
        np.testing.assert_array_equal(differences, np.arange(-1, 15))
        request.model_version = "wrong_specification"
        with pytest.raises(grpc.RpcError) as caught:
            stub.ModelInfer(request, timeout=WAIT_S)
    text = "failed to get model version from specified version string 'wrong_specification'"
    assert text in str(caught.value.details())


def test_bytes_in_typed_contents(simple_string: Asked) -> None:
    numbers = [str(i).encode() for i in range(16)]
    request = typed(simple_string.model, "BYTES", INPUT0=numbers, INPUT1=[b"1"] * 16)
    with grpc.insecure_channel(simple_string.server.grpc) as channel:
        response = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=WAIT_S)
    sums, differences = (deserialize_bytes_tensor(raw).tolist() for raw in response.raw_output_contents)
    assert [int(v) for v in sums] == list(range(1, 17))
    assert [int(v) for v in differences] == list(range(-1, 15))


def test_raw_stub(simple: Asked) -> None:
    with grpc.insecure_channel(simple.server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        assert stub.ServerLive(service_pb2.ServerLiveRequest()).live
        assert stub.ServerReady(service_pb2.ServerReadyRequest()).ready
        assert stub.ModelReady(service_pb2.ModelReadyRequest(name=simple.model, version="1")).ready
        assert stub.ServerMetadata(service_pb2.ServerMetadataRequest()).name == "triton"
        assert stub.ModelMetadata(service_pb2.ModelMetadataRequest(name=simple.model)).name == simple.model
        assert stub.ModelConfig(service_pb2.ModelConfigRequest(name=simple.model)).config.max_batch_size == 8
        request = service_pb2.ModelInferRequest(model_name=simple.model, id="my request id")
        for name, x in (("INPUT0", A), ("INPUT1", B)):
            request.inputs.add(name=name, datatype="INT32", shape=[1, 16])
            request.raw_input_contents.append(x.tobytes())
        request.outputs.add(name="OUTPUT1")
        response = stub.ModelInfer(request)
    assert (response.id, [output.name for output in response.outputs]) == ("my request id", ["OUTPUT1"])
    np.testing.assert_array_equal(np.frombuffer(response.raw_output_contents[0], np.int32), (A - B)[0])


#: model, id, first value, sign; as the published program sends three sequences down one stream
Sequences = list[tuple[str, int | str, int, int]]


def sequences(asked: Asked, *, dyna: bool) -> tuple[Sequences, list[list[int]]]:
    """The sequences to send and the answers to expect. dyna: use the models that receive the correlation id."""
    model, text = (asked.named(f"simple_{name}sequence") for name in (("dyna_", "string_dyna_") if dyna else ("", "")))
    if not dyna:
        sent: Sequences = [(model, 1000, 0, 1), (model, 1001, 100, -1), (text, str(uuid.uuid4()), 20, -1)]
        return sent, [stepped(0, 1), stepped(100, -1), stepped(20, -1)]
    sent, answers = [(model, 1000, 0, 1), (model, 1001, 100, -1)], [stepped(0, 1, 1000), stepped(100, -1, 1001)]
    if asked.server.name == "triton":  # 2.51 refuses every request to a model with a CORRID of texts
        return sent, answers
    return [*sent, (text, "1002", 20, -1)], [*answers, totalled(20, -1, 1002)]


def sequence_requests(sent: Sequences, module: Any) -> Iterator[dict[str, Any]]:
    for i, (model, identity, first, sign) in enumerate(sent):
        for value, start, end in steps(first, sign):
            yield {
                "model_name": model,
                "inputs": [tensor("INPUT", np.array([[value]], np.int32), "INT32", module)],
                "outputs": [module.InferRequestedOutput("OUTPUT")],
                "request_id": str(i),
                "sequence_id": identity,
                "sequence_start": start,
                "sequence_end": end,
            }


def by_sequence(results: list[Any]) -> list[list[int]]:
    """The answers of each sequence, in order of arrival."""
    seen: dict[int, list[int]] = {}
    for result in results:
        seen.setdefault(int(result.get_response().id), []).append(int(result.as_numpy("OUTPUT")[0, 0]))
    return [values for _, values in sorted(seen.items())]


@pytest.mark.parametrize("dyna", [False, True])
def test_sequences_by_stream(simple: Asked, dyna: bool) -> None:
    sent, expected = sequences(simple, dyna=dyna)
    requests = list(sequence_requests(sent, triton))
    answers: Answers = queue.SimpleQueue()
    with triton.InferenceServerClient(simple.server.grpc) as client:
        client.start_stream(partial(put, answers), stream_timeout=WAIT_S)
        for request in requests:
            client.async_stream_infer(**request)
        assert by_sequence([answer(answers) for _ in requests]) == expected


@pytest.mark.parametrize("dyna", [False, True])
def test_sequences_by_asyncio_stream(simple: Asked, dyna: bool) -> None:
    sent, expected = sequences(simple, dyna=dyna)

    async def requests() -> AsyncIterator[dict[str, Any]]:
        for request in sequence_requests(sent, aio):
            yield request

    async def main() -> list[tuple[Any, Any]]:
        async with aio.InferenceServerClient(simple.server.grpc) as client:
            return [pair async for pair in client.stream_infer(requests(), stream_timeout=WAIT_S)]

    pairs = asyncio.run(main())
    assert not [error for _, error in pairs if error is not None]
    assert by_sequence([result for result, _ in pairs]) == expected


def test_a_decoupled_model_answers_once_per_element(server: Served) -> None:
    """Like simple_grpc_custom_repeat, wait for as many answers as elements."""
    values, count = np.arange(100, 110, dtype=np.int32), 10
    inputs = [
        tensor("IN", values, "INT32"),
        tensor("DELAY", np.full(count, 5, np.uint32), "UINT32"),
        tensor("WAIT", np.array([20], np.uint32), "UINT32"),
    ]
    answers: Answers = queue.SimpleQueue()
    with triton.InferenceServerClient(server.grpc) as client:
        client.start_stream(partial(put, answers))
        client.async_stream_infer("repeat_delayed", inputs, outputs=[triton.InferRequestedOutput("OUT")])
        results = [answer(answers).as_numpy("OUT") for _ in range(count)]
    assert [result.tolist() for result in results] == [[value] for value in values]


def test_the_empty_final_answer_comes_where_it_is_asked_for(server: Served) -> None:
    answers: Answers = queue.SimpleQueue()
    seen = []
    with triton.InferenceServerClient(server.grpc) as client:
        client.start_stream(partial(put, answers))
        x = tensor("IN", np.array([4, 5, 6, 7], np.int32), "INT32")
        client.async_stream_infer("repeat_int32", [x], request_id="r", enable_empty_final_response=True)
        while not (result := answer(answers)).get_response().parameters["triton_final_response"].bool_param:
            seen.append((int(result.as_numpy("OUT")[0]), int(result.as_numpy("IDX")[0])))
    assert not result.get_response().outputs
    assert seen == [(4, 0), (5, 1), (6, 2), (7, 3)]


def test_a_stream_carries_errors_and_goes_on(simple: Asked) -> None:
    answers: Answers = queue.SimpleQueue()
    with triton.InferenceServerClient(simple.server.grpc) as client:
        client.start_stream(partial(put, answers))
        client.async_stream_infer("nope", operands())
        assert "unknown model" in answers.get(timeout=WAIT_S)[1].message()
        client.async_stream_infer(simple.model, operands())
        check_sums(answer(answers))


def test_unary_calls_beside_a_stream(simple: Asked) -> None:
    answers: Answers = queue.SimpleQueue()
    with triton.InferenceServerClient(simple.server.grpc) as client:
        client.start_stream(partial(put, answers))
        for i in range(4):
            client.async_stream_infer(simple.model, operands(A + i, B), request_id=str(i))
            check_sums(client.infer(simple.model, operands(A - i, B)), A - i, B)
        results = [answer(answers) for _ in range(4)]
    assert [result.get_response().id for result in results] == ["0", "1", "2", "3"]
    for i, result in enumerate(results):
        check_sums(result, A + i, B)
