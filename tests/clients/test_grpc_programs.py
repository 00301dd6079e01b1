# SPDX-License-Identifier: Apache-2.0
"""What each of tritonclient's published gRPC examples does: synchronous, asynchronous, asyncio, streams, sequences, control."""

from __future__ import annotations

import asyncio
import queue
from functools import partial
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import aio, service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException, deserialize_bytes_tensor

from tests.clients.conftest import Asked
from tests.reference.servers import Served

A = np.arange(16, dtype=np.int32).reshape(1, 16)
B = np.full((1, 16), 3, np.int32)
WAIT_S = 60


def tensor(name: str, x: np.ndarray, datatype: str, module: Any = triton) -> Any:
    made = module.InferInput(name, list(x.shape), datatype)
    made.set_data_from_numpy(x)
    return made


def operands(a: np.ndarray = A, b: np.ndarray = B, datatype: str = "INT32", module: Any = triton) -> list[Any]:
    return [tensor("INPUT0", a, datatype, module), tensor("INPUT1", b, datatype, module)]


def check_sums(result: Any, a: np.ndarray = A, b: np.ndarray = B) -> None:
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), a + b)
    np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), a - b)


def test_infer(simple: Asked) -> None:
    outputs = [triton.InferRequestedOutput(name) for name in ("OUTPUT0", "OUTPUT1")]
    with triton.InferenceServerClient(simple.server.grpc) as client:
        check_sums(client.infer(simple.model, operands(), outputs=outputs, headers={"test": "1"}))
        check_sums(client.infer(simple.model, operands()))
        assert client.infer(simple.model, operands(), request_id="7").get_response().id == "7"
        statistics = client.get_inference_statistics(simple.model).model_stats
        assert statistics[0].inference_stats.success.count >= 3


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_infer_compressed(simple: Asked, algorithm: str) -> None:
    with triton.InferenceServerClient(simple.server.grpc) as client:
        check_sums(client.infer(simple.model, operands(), compression_algorithm=algorithm))


def test_async_infer(simple: Asked) -> None:
    ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with triton.InferenceServerClient(simple.server.grpc) as client:
        for _ in range(8):
            client.async_infer(
                simple.model, operands(), callback=lambda result, error: ended.put((result, error)), client_timeout=WAIT_S
            )
        for _ in range(8):
            result, error = ended.get(timeout=WAIT_S)
            assert error is None
            check_sums(result)


def test_async_infer_ends_with_the_servers_error(simple: Asked) -> None:
    ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with triton.InferenceServerClient(simple.server.grpc) as client:
        client.async_infer("nope", operands(), callback=lambda result, error: ended.put((result, error)))
        result, error = ended.get(timeout=WAIT_S)
    assert result is None
    assert "Request for unknown model: 'nope' is not found" in error.message()


def test_aio_infer(simple: Asked) -> None:
    async def main() -> list[Any]:
        async with aio.InferenceServerClient(simple.server.grpc) as client:
            assert await client.is_server_live()
            assert await client.is_model_ready(simple.model)
            return await asyncio.gather(*(client.infer(simple.model, operands()) for _ in range(8)))

    for result in asyncio.run(main()):
        check_sums(result)


def test_int8_by_byte_contents(simple_int8: Asked) -> None:
    """grpc_explicit_int8_content_client: the raw stub and typed contents."""
    with grpc.insecure_channel(simple_int8.server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        request = service_pb2.ModelInferRequest(model_name=simple_int8.model, id="typed")
        for name, values in (("INPUT0", range(16)), ("INPUT1", [1] * 16)):
            put = request.inputs.add(name=name, datatype="INT8", shape=[1, 16])
            put.contents.int_contents.extend(values)
        answer = stub.ModelInfer(request, timeout=WAIT_S)
    sums = np.frombuffer(answer.raw_output_contents[0], np.int8)
    np.testing.assert_array_equal(sums, np.arange(16, dtype=np.int8) + 1)
    assert answer.id == "typed"


def test_int32_by_int_contents(simple: Asked) -> None:
    with grpc.insecure_channel(simple.server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        request = service_pb2.ModelInferRequest(model_name=simple.model)
        for name, x in (("INPUT0", A), ("INPUT1", B)):
            request.inputs.add(name=name, datatype="INT32", shape=[1, 16]).contents.int_contents.extend(x.reshape(-1).tolist())
        request.outputs.add(name="OUTPUT1")
        answer = stub.ModelInfer(request, timeout=WAIT_S)
    assert [output.name for output in answer.outputs] == ["OUTPUT1"]
    np.testing.assert_array_equal(np.frombuffer(answer.raw_output_contents[0], np.int32), (A - B)[0])


def test_bytes_by_bytes_contents(simple_identity: Asked) -> None:
    with grpc.insecure_channel(simple_identity.server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        request = service_pb2.ModelInferRequest(model_name=simple_identity.model)
        put = request.inputs.add(name="INPUT0", datatype="BYTES", shape=[1, 3])
        put.contents.bytes_contents.extend([b"a", b"", b"long text"])
        answer = stub.ModelInfer(request, timeout=WAIT_S)
    assert deserialize_bytes_tensor(answer.raw_output_contents[0]).tolist() == [b"a", b"", b"long text"]


def test_raw_stub(simple: Asked) -> None:
    """grpc_client: liveness, readiness, metadata, configuration and inference by the raw stub."""
    with grpc.insecure_channel(simple.server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        assert stub.ServerLive(service_pb2.ServerLiveRequest()).live
        assert stub.ServerReady(service_pb2.ServerReadyRequest()).ready
        assert stub.ModelReady(service_pb2.ModelReadyRequest(name=simple.model, version="1")).ready
        assert stub.ServerMetadata(service_pb2.ServerMetadataRequest()).name == "triton"
        found = stub.ModelMetadata(service_pb2.ModelMetadataRequest(name=simple.model))
        assert [(t.name, t.datatype, list(t.shape)) for t in found.inputs] == [
            (n, "INT32", [-1, 16]) for n in ("INPUT0", "INPUT1")
        ]
        assert stub.ModelConfig(service_pb2.ModelConfigRequest(name=simple.model)).config.max_batch_size == 8
        request = service_pb2.ModelInferRequest(model_name=simple.model)
        for name, x in (("INPUT0", A), ("INPUT1", B)):
            request.inputs.add(name=name, datatype="INT32", shape=[1, 16])
            request.raw_input_contents.append(x.tobytes())
        answer = stub.ModelInfer(request)
        np.testing.assert_array_equal(np.frombuffer(answer.raw_output_contents[0], np.int32), (A + B)[0])


def test_strings(server: Served) -> None:
    a, b = (np.array([[str(v).encode() for v in x[0]]], np.object_) for x in (A, B))
    with triton.InferenceServerClient(server.grpc) as client:
        result = client.infer("simple_string", operands(a, b, "BYTES"))
    assert [int(v) for v in result.as_numpy("OUTPUT0")[0]] == (A + B)[0].tolist()
    assert [int(v) for v in result.as_numpy("OUTPUT1")[0]] == (A - B)[0].tolist()


@pytest.mark.parametrize("elements", [[b"null terminated \0 inside", b"\0", b"\xc3\xa9"], [b""]])
def test_string_identity(simple_identity: Asked, elements: list[bytes]) -> None:
    if b"\0" in b"".join(elements) and simple_identity.model.endswith("_onnx"):
        elements = [element.replace(b"\0", b"") for element in elements]  # ONNX Runtime's Python strings end at a zero byte
    x = np.array([elements], np.object_)
    with triton.InferenceServerClient(simple_identity.server.grpc) as client:
        result = client.infer(simple_identity.model, [tensor("INPUT0", x, "BYTES")])
    assert result.as_numpy("OUTPUT0").tolist() == [elements]


def test_health_and_metadata(server: Served) -> None:
    with triton.InferenceServerClient(server.grpc) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("simple")
        assert not client.is_model_ready("wrong_model_name")
        metadata = client.get_server_metadata(as_json=True)
        assert metadata["name"] == "triton"
        assert client.get_model_metadata("simple", as_json=True)["name"] == "simple"
        assert client.get_model_config("simple", as_json=True)["config"]["name"] == "simple"
        with pytest.raises(InferenceServerException, match="Request for unknown model: 'wrong_model_name' is not found"):
            client.get_model_metadata("wrong_model_name")
        assert client.get_trace_settings("simple").settings["trace_level"].value == ["OFF"]
        assert client.get_log_settings().settings["log_info"].bool_param


def test_model_control(server: Served) -> None:
    with triton.InferenceServerClient(server.grpc) as client:
        names = {entry.name for entry in client.get_model_repository_index().models}
        assert {"simple", "image_channels", "repeat_int32"} <= names
        client.unload_model("simple_string")
        assert not client.is_model_ready("simple_string")
        client.load_model("simple_string")
        assert client.is_model_ready("simple_string")
        with pytest.raises(InferenceServerException, match="failed to load 'wrong_model_name'"):
            client.load_model("wrong_model_name")


def test_keepalive(simple: Asked) -> None:
    options = triton.KeepAliveOptions(
        keepalive_time_ms=2**31 - 1,
        keepalive_timeout_ms=20000,
        keepalive_permit_without_calls=False,
        http2_max_pings_without_data=2,
    )
    with triton.InferenceServerClient(simple.server.grpc, keepalive_options=options) as client:
        check_sums(client.infer(simple.model, operands()))


def test_channel_arguments(simple: Asked) -> None:
    arguments = [
        ("grpc.primary_user_agent", "test"),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", -1),
    ]
    with triton.InferenceServerClient(simple.server.grpc, channel_args=arguments) as client:
        check_sums(client.infer(simple.model, operands()))


def test_inputs_and_outputs_used_again(simple: Asked) -> None:
    inputs, outputs = operands(), [triton.InferRequestedOutput("OUTPUT0")]
    with triton.InferenceServerClient(simple.server.grpc) as client:
        for i in range(5):
            inputs[0].set_data_from_numpy(A + i)
            result = client.infer(simple.model, inputs, outputs=outputs)
            np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), A + i + B)
            assert result.as_numpy("OUTPUT1") is None


def test_deadline_of_the_client(server: Served) -> None:
    x = np.array([[2000]], np.int32)
    with (
        triton.InferenceServerClient(server.grpc) as client,
        pytest.raises(InferenceServerException, match="Deadline Exceeded"),
    ):
        client.infer("slow", [tensor("INPUT0", x, "INT32")], client_timeout=0.2)


SEQUENCES = ["simple_sequence", "simple_dyna_sequence"]
VALUES = [11, 7, 5, 3, 2, 0, 1]


def steps(values: list[int]) -> list[tuple[int, bool, bool]]:
    return [(value, i == 0, i == len(values) - 1) for i, value in enumerate(values)]


def marks(identity: int, start: bool, end: bool) -> dict[str, Any]:
    return {"sequence_id": identity, "sequence_start": start, "sequence_end": end}


def item(value: int) -> list[Any]:
    return [tensor("X", np.array([[value]], np.int32), "INT32")]


@pytest.mark.parametrize("model", SEQUENCES)
@pytest.mark.parametrize("ids", [(1001, 1002), (1003, 1 << 62)])
def test_sequences(server: Served, model: str, ids: tuple[int, int]) -> None:
    """simple_grpc_sequence_sync_infer_client: two sequences at once, each with its own sum."""
    seen: dict[Any, list[int]] = {identity: [] for identity in ids}
    with triton.InferenceServerClient(server.grpc) as client:
        for value, start, end in steps(VALUES):
            for sign, identity in zip((1, -1), ids, strict=True):
                result = client.infer(model, item(sign * value), sequence_id=identity, sequence_start=start, sequence_end=end)
                seen[identity].append(int(result.as_numpy("SUM")[0, 0]))
    assert seen == {ids[0]: np.cumsum(VALUES).tolist(), ids[1]: (-np.cumsum(VALUES)).tolist()}


@pytest.mark.parametrize("model", SEQUENCES)
def test_sequences_by_stream(server: Served, model: str) -> None:
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with triton.InferenceServerClient(server.grpc) as client:
        client.start_stream(callback=lambda result, error: answers.put((result, error)))
        for value, start, end in steps(VALUES):
            for sign, identity in ((1, 2001), (-1, 2002)):
                client.async_stream_infer(
                    model,
                    item(sign * value),
                    request_id=str(identity),
                    sequence_id=identity,
                    sequence_start=start,
                    sequence_end=end,
                )
        seen: dict[str, list[int]] = {"2001": [], "2002": []}
        for _ in range(2 * len(VALUES)):
            result, error = answers.get(timeout=WAIT_S)
            assert error is None
            seen[result.get_response().id].append(int(result.as_numpy("SUM")[0, 0]))
        client.stop_stream()
    assert seen == {"2001": np.cumsum(VALUES).tolist(), "2002": (-np.cumsum(VALUES)).tolist()}


@pytest.mark.parametrize("model", SEQUENCES)
def test_sequences_by_aio_stream(server: Served, model: str) -> None:
    async def main() -> list[int]:
        async def requests() -> Any:
            for value, start, end in steps(VALUES):
                yield {"model_name": model, "inputs": item(value), **marks(3001, start, end)}

        async with aio.InferenceServerClient(server.grpc) as client:
            seen = []
            async for result, error in client.stream_infer(requests()):
                assert error is None
                seen.append(int(result.as_numpy("SUM")[0, 0]))
            return seen

    assert asyncio.run(main()) == np.cumsum(VALUES).tolist()


def _put(answers: queue.SimpleQueue[Any], result: Any, error: Any) -> None:
    answers.put((result, error))


def test_decoupled_model_answers_once_per_element(server: Served) -> None:
    """simple_grpc_custom_repeat: several answers to one request, and the empty final one."""
    values = np.array([4, 5, 6, 7], np.int32)
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with triton.InferenceServerClient(server.grpc) as client:
        client.start_stream(callback=partial(_put, answers))
        client.async_stream_infer(
            "repeat_int32", [tensor("IN", values, "INT32")], request_id="r", enable_empty_final_response=True
        )
        seen = []
        while True:
            result, error = answers.get(timeout=WAIT_S)
            assert error is None
            response = result.get_response()
            if response.parameters["triton_final_response"].bool_param:
                assert not response.outputs
                break
            seen.append((int(result.as_numpy("OUT")[0]), int(result.as_numpy("IDX")[0])))
        client.stop_stream()
    assert seen == [(4, 0), (5, 1), (6, 2), (7, 3)]


def test_a_stream_carries_errors_and_goes_on(server: Served) -> None:
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with triton.InferenceServerClient(server.grpc) as client:
        client.start_stream(callback=partial(_put, answers))
        client.async_stream_infer("nope", operands())
        assert "unknown model" in answers.get(timeout=WAIT_S)[1].message()
        client.async_stream_infer("simple", operands())
        check_sums(answers.get(timeout=WAIT_S)[0])
        client.stop_stream()
