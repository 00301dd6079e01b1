# SPDX-License-Identifier: Apache-2.0
"""Triton's RPCs over real gRPC: the error table's rows, metadata, configuration, statistics, health, asyncio."""

from __future__ import annotations

import asyncio
import string
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from hypersonic.server.errors import printable
from hypersonic.server.wire.grpc.failures import header_text
from tests.server.conftest import Running, Script, Serve, tensor, write_model
from tests.server.error_rows import SHAPE
from tests.support.waiting import wait_until

Request: TypeAlias = service_pb2.ModelInferRequest


@pytest.fixture
def running(serve: Serve) -> Iterator[Running]:
    with serve() as server:
        yield server


@pytest.fixture
def stub(running: Running) -> Iterator[service_pb2_grpc.GRPCInferenceServiceStub]:
    with grpc.insecure_channel(running.grpc) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def request(rows: int = 2, **changes: Any) -> Request:
    """Two rows of ones for model m; `changes` replace fields of the only input or of the message."""
    message = Request(model_name="m")
    given = message.inputs.add(name="x", datatype="FP32", shape=[rows, 3])
    message.raw_input_contents.append(np.ones((max(rows, 0), 3), np.float32).tobytes())
    for name, value in changes.items():
        if name in ("name", "datatype"):
            setattr(given, name, value)
        elif name == "shape":
            given.shape[:] = value
        elif name == "raw":
            message.raw_input_contents[:] = value
        else:
            setattr(message, name, value)
    return message


def changed(change: Callable[[Request], object], **changes: Any) -> Request:
    message = request(**changes)
    change(message)
    return message


def parameter(key: str, **value: object) -> Callable[[Request], object]:
    return lambda message: message.parameters[key].MergeFrom(service_pb2.InferParameter(**value))


#: one of Triton's errors each: request, code, text
ROWS = {
    "unknown model": (request(model_name="n"), "NOT_FOUND", "Request for unknown model: 'n' is not found"),
    "empty model": (request(model_name=""), "NOT_FOUND", "Request for unknown model: '' is not found"),
    "unknown version": (request(model_version="7"), "NOT_FOUND", "Request for unknown model: 'm' version 7 is not found"),
    "version no number": (request(model_version="abc"), "INVALID_ARGUMENT", "failed to get model version from specified"),
    "negative version": (request(model_version="-1"), "INVALID_ARGUMENT", "invalid model version specified '-1' , version"),
    "batch too big": (request(201), "INVALID_ARGUMENT", "inference request batch-size must be <= 200 for 'm'"),
    "zero rows": (request(0, raw=[b""]), "INVALID_ARGUMENT", "inference request batch-size must be >= 1 for 'm'"),
    "negative rows": (request(shape=[-1, 3]), "INVALID_ARGUMENT", "inference request batch-size must be >= 1 for 'm'"),
    "absurd rows": (request(shape=[2**63 - 1, 3]), "INVALID_ARGUMENT", "inference request batch-size must be <= 200 for 'm'"),
    "no batch dimension": (request(shape=[3]), "INVALID_ARGUMENT", SHAPE + "[3]. NOTE: Setting a non-zero max_batch_size"),
    "no shape": (request(shape=[]), "INVALID_ARGUMENT", "input 'x' has no shape but model requires batch dimension for 'm'"),
    "wrong dimension": (request(shape=[2, 4]), "INVALID_ARGUMENT", SHAPE + "[2,4]. NOTE: Setting a non-zero max_batch_size"),
    "absurd dimension": (request(shape=[2, 2**62]), "INVALID_ARGUMENT", SHAPE + "[2,4611686018427387904]."),
    "datatype": (
        request(datatype="INT32"),
        "INVALID_ARGUMENT",
        "inference input 'x' data-type is 'INT32', but model 'm' expects 'FP32'",
    ),
    "no datatype": (request(datatype="FOO"), "INVALID_ARGUMENT", "data-type is '<invalid>', but model 'm' expects 'FP32'"),
    "too few bytes": (
        request(raw=[bytes(5)]),
        "INVALID_ARGUMENT",
        "input byte size mismatch for input 'x' for model 'm'. Expected 24, got 5",
    ),
    "too many bytes": (request(raw=[bytes(100)]), "INVALID_ARGUMENT", "Expected 24, got 100"),
    "unknown input": (request(name="w"), "INVALID_ARGUMENT", "unexpected inference input 'w' for model 'm'"),
    "input twice": (
        changed(lambda m: (m.inputs.add().CopyFrom(m.inputs[0]), m.raw_input_contents.append(bytes(24)))),
        "INVALID_ARGUMENT",
        "input 'x' already exists in request",
    ),
    "one input more": (
        changed(lambda m: (m.inputs.add(name="w"), m.raw_input_contents.append(b""))),
        "INVALID_ARGUMENT",
        "expected 1 inputs but got 2 inputs for model 'm'. Got input(s) ['w','x'], but missing required input(s) [].",
    ),
    "no inputs": (
        Request(model_name="m"),
        "INVALID_ARGUMENT",
        "Got input(s) [], but missing required input(s) ['x']. Please provide all required input(s).",
    ),
    "unknown output": (
        changed(lambda m: m.outputs.add(name="z")),
        "INVALID_ARGUMENT",
        "unexpected inference output 'z' for model 'm'",
    ),
    "output twice": (
        changed(lambda m: (m.outputs.add(name="y"), m.outputs.add(name="y"))),
        "INVALID_ARGUMENT",
        "output 'y' already exists in request",
    ),
    "no data": (request(raw=[]), "INVALID_ARGUMENT", "unable to find data for input tensor 'x' for model 'm' in request."),
    "raw contents too many": (request(raw=[bytes(24), b""]), "INVALID_ARGUMENT", "expected 1 raw_input_contents"),
    "raw and typed": (
        changed(lambda m: m.inputs[0].contents.fp32_contents.append(1)),
        "INVALID_ARGUMENT",
        "contents field must not be specified when using raw_input_contents for 'x' for model 'm'",
    ),
    "typed in the wrong field": (
        changed(lambda m: m.inputs[0].contents.int_contents.append(1), raw=[]),
        "INVALID_ARGUMENT",
        "unexpected explicit tensor data for input tensor 'x' for model 'm' of type 'INT32', expected datatype 'FP32'",
    ),
    "too few typed": (
        changed(lambda m: m.inputs[0].contents.fp32_contents.append(1), raw=[]),
        "INVALID_ARGUMENT",
        "Expected 24, got 4",
    ),
    "reserved parameter": (
        changed(parameter("triton_x", int64_param=1)),
        "INVALID_ARGUMENT",
        "parameter keys starting with 'triton_' are reserved for Triton usage",
    ),
    "parameter of a wrong type": (
        changed(parameter("timeout", string_param="5")),
        "INVALID_ARGUMENT",
        "invalid value type for 'timeout' parameter, expected int64_param.",
    ),
    "parameter without value": (changed(parameter("p")), "INVALID_ARGUMENT", "invalid value type for 'p' parameter"),
    "shared memory": (
        changed(lambda m: m.inputs[0].parameters["shared_memory_region"].SetInParent()),
        "UNIMPLEMENTED",
        "Client shared memory is disabled",
    ),
    "shared memory for an output": (
        changed(lambda m: m.outputs.add(name="y").parameters["shared_memory_region"].SetInParent()),
        "UNIMPLEMENTED",
        "Client shared memory is disabled",
    ),
    "classification": (
        changed(lambda m: m.outputs.add(name="y").parameters["classification"].SetInParent()),
        "INVALID_ARGUMENT",
        "invalid value type for 'classification' parameter, expected int64_param",
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_a_bad_request_is_refused_with_tritons_code_and_text(stub: service_pb2_grpc.GRPCInferenceServiceStub, row: str) -> None:
    message, code, text = ROWS[row]
    with pytest.raises(grpc.RpcError) as caught:
        stub.ModelInfer(message, timeout=20)
    assert (caught.value.code().name, text in (caught.value.details() or "")) == (code, True), caught.value.details()
    assert len(stub.ModelInfer(request(), timeout=20).raw_output_contents[0]) == 8
    figures = stub.ModelStatistics(service_pb2.ModelStatisticsRequest()).model_stats[0].inference_stats
    assert (figures.success.count, figures.fail.count) == (1, 0)


def test_tensor_errors_name_the_request_as_triton_does(stub: service_pb2_grpc.GRPCInferenceServiceStub) -> None:
    for sent, named in (("q7", "q7"), ("", "<id_unknown>")):
        with pytest.raises(grpc.RpcError) as caught:
            stub.ModelInfer(request(201, id=sent))
        assert caught.value.details() == f"[request id: {named}] inference request batch-size must be <= 200 for 'm'"


def test_bytes_that_are_no_message_are_refused(running: Running) -> None:
    with grpc.insecure_channel(running.grpc) as channel:
        call: Any = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"\xff\xff\xff", timeout=20)
        assert (caught.value.code().name, caught.value.details()) == (
            "INVALID_ARGUMENT",
            "Unable to parse request: 3 bytes are not a ModelInferRequest",
        )


def test_a_name_with_control_characters_or_a_megabyte_comes_back_tamed(stub: service_pb2_grpc.GRPCInferenceServiceStub) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        stub.ModelInfer(request(model_name="a\nb\x00"))
    assert caught.value.details() == "Request for unknown model: 'a\nb\\x00' is not found"  # gRPC encodes line ends itself
    with pytest.raises(grpc.RpcError) as caught:
        stub.ModelInfer(request(model_name="a" * 10**6))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_an_answer_carries_what_triton_puts_into_it(stub: service_pb2_grpc.GRPCInferenceServiceStub) -> None:
    answer = stub.ModelInfer(changed(lambda m: m.outputs.add(name="y"), id="abc", model_version="1"))
    assert answer == service_pb2.ModelInferResponse(
        model_name="m",
        model_version="1",
        id="abc",
        outputs=[service_pb2.ModelInferResponse.InferOutputTensor(name="y", datatype="FP32", shape=[2, 1])],
        raw_output_contents=[struct.pack("<2f", 3, 3)],
    )


def test_typed_contents_and_harmless_parameters_are_accepted(stub: service_pb2_grpc.GRPCInferenceServiceStub) -> None:
    message = changed(lambda m: m.inputs[0].contents.fp32_contents.extend(range(6)), raw=[])
    message.parameters["custom"].double_param = 1.5
    message.parameters["sequence_id"].string_param = "s"
    message.parameters["priority"].uint64_param = 1
    message.parameters["triton_enable_empty_final_response"].bool_param = True
    assert stub.ModelInfer(message).raw_output_contents[0] == struct.pack("<2f", 3, 12)


def test_typed_contents_count_with_what_they_take_in_memory_before_they_are_parsed(serve: Serve) -> None:
    message = changed(lambda m: m.inputs[0].contents.int64_contents.extend([1] * 10**6), raw=[])
    with serve(max_inflight_bytes=20 << 20) as running, grpc.insecure_channel(running.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        with pytest.raises(
            grpc.RpcError, match=r"the requests in flight hold \d+ bytes.* 24000000 more would exceed"
        ) as caught:
            stub.ModelInfer(message, timeout=20)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        (answer,) = stub.ModelStreamInfer(iter([message]), timeout=20)
        assert "24000000 more would exceed its share" in answer.error_message
        assert stub.ModelInfer(request(), timeout=20).raw_output_contents
        wait_until(lambda: running.server.service.admission.size_bytes == 0)


def test_nan_and_infinity_touch_nobody_elses_rows(running: Running) -> None:
    x = np.array([[np.nan, 1, 2], [np.inf, 1, 2], [1, 2, 3]], np.float32)
    np.testing.assert_array_equal(running.infer(x)[:, 0], np.array([np.nan, np.inf, 6], np.float32))


def test_metadata_and_configuration_are_tritons(running: Running) -> None:
    with triton.InferenceServerClient(running.grpc) as client:
        server = client.get_server_metadata(as_json=True)
        assert server["name"] == "triton"
        assert "statistics" in server["extensions"]  # perf_analyzer looks for it
        assert not {"cuda_shared_memory", "system_shared_memory"} & set(server["extensions"])
        assert server["extensions"][-1] == "hypersonic", "no card is simulated"
        metadata = client.get_model_metadata("m", as_json=True)
        assert metadata == {
            "name": "m",
            "versions": ["1"],
            "platform": "sum",
            "inputs": [{"name": "x", "datatype": "FP32", "shape": ["-1", "3"]}],
            "outputs": [{"name": "y", "datatype": "FP32", "shape": ["-1", "1"]}],
        }
        config = client.get_model_config("m").config
        assert (config.name, config.max_batch_size, config.input[0].dims[0]) == ("m", 200, 3)
        for method in (client.get_model_metadata, client.get_model_config):
            with pytest.raises(InferenceServerException, match="Request for unknown model: 'n' is not found"):
                method("n")


def test_liveness_and_readiness(running: Running) -> None:
    with triton.InferenceServerClient(running.grpc) as client:
        assert (client.is_server_live(), client.is_server_ready(), client.is_model_ready("m", "1")) == (True, True, True)
        assert (client.is_model_ready("m", "2"), client.is_model_ready("n")) == (False, False)
        with pytest.raises(InferenceServerException, match="failed to get model version"):
            client.is_model_ready("m", "x")


def test_statistics_add_up(running: Running) -> None:
    for count in (1, 4, 4):
        running.infer(np.ones((count, 3), np.float32))
    with triton.InferenceServerClient(running.grpc) as client:
        (figures,) = client.get_inference_statistics("m", "1").model_stats
        assert len(client.get_inference_statistics().model_stats) == 1
        with pytest.raises(InferenceServerException, match="requested model 'n' is not available"):
            client.get_inference_statistics("n")
        with pytest.raises(InferenceServerException, match="requested model version is not available for model 'm'"):
            client.get_inference_statistics("m", "2")
    parts = figures.inference_stats
    assert (figures.inference_count, figures.execution_count, parts.success.count, parts.fail.count) == (9, 3, 3, 0)
    assert {part.count for part in (parts.queue, parts.compute_input, parts.compute_infer, parts.compute_output)} == {3}
    spent = parts.queue.ns + parts.compute_input.ns + parts.compute_infer.ns + parts.compute_output.ns
    assert 0 < spent <= parts.success.ns
    assert [(batch.batch_size, batch.compute_infer.count) for batch in figures.batch_stats] == [(1, 1), (4, 2)]
    assert figures.last_inference > 1_600_000_000_000


def test_the_repository_index_shows_what_failed_and_why(serve: Serve, tmp_path: Path) -> None:
    repository = tmp_path / "r"
    write_model(repository)
    (write_model(repository, "broken") / "1" / "broken").write_text("no card")
    with serve(repository=repository) as running, triton.InferenceServerClient(running.grpc) as client:
        index = client.get_model_repository_index(as_json=True)["models"]
        assert index == [
            {"name": "broken", "version": "1", "state": "UNAVAILABLE", "reason": "Internal: broken/1/broken: no card"},
            {"name": "m", "version": "1", "state": "READY"},
        ]
        assert not client.is_server_ready()
        assert running.infer(np.ones((1, 3), np.float32)).tolist() == [[3.0]]
        with pytest.raises(InferenceServerException, match="Request for unknown model: 'broken' has no available versions"):
            client.infer("broken", [tensor(np.ones((1, 3), np.float32))])
        with pytest.raises(InferenceServerException, match="'broken' version 1 is not at ready state"):
            client.infer("broken", [tensor(np.ones((1, 3), np.float32))], model_version="1")


def test_without_strict_readiness_a_failed_model_leaves_the_server_ready(serve: Serve, tmp_path: Path) -> None:
    (write_model(tmp_path / "r", "broken") / "1" / "broken").write_text("no card")
    with serve(repository=tmp_path / "r", strict_readiness=False) as running:
        assert running.server.service.ready


def test_what_is_not_there_says_so(running: Running) -> None:
    with triton.InferenceServerClient(running.grpc) as client:
        with pytest.raises(InferenceServerException, match="explicit model load / unload is not allowed") as caught:
            client.load_model("m")
        assert caught.value.status() == "StatusCode.UNAVAILABLE"
        with pytest.raises(InferenceServerException, match="Client shared memory is disabled") as caught:
            client.get_system_shared_memory_status()
        assert caught.value.status() == "StatusCode.UNIMPLEMENTED"


def test_a_server_without_gpus_says_so(running: Running) -> None:
    with triton.InferenceServerClient(running.grpc) as client:
        assert not client.get_cuda_shared_memory_status().regions
        client.unregister_cuda_shared_memory()
        with pytest.raises(InferenceServerException, match="failed to register CUDA shared memory region: 'n', GPUs not supp"):
            client.register_cuda_shared_memory("n", b"", 0, 1)


def test_asyncio_clients_are_served(running: Running) -> None:
    async def main() -> list[float]:
        async with triton_aio.InferenceServerClient(running.grpc) as client:
            assert await client.is_server_ready()
            inputs = [tensor(np.full((1, 3), n, np.float32)) for n in range(20)]
            answers = await asyncio.gather(*(client.infer("m", [given]) for given in inputs))
            return [float(answer.as_numpy("y")[0, 0]) for answer in answers]

    assert asyncio.run(main()) == [3.0 * n for n in range(20)]


def test_grpc_health_answers_and_tells_those_who_watch(serve: Serve) -> None:
    with serve(Script(hang_from_run={"sum_1": 1})) as running, grpc.insecure_channel(running.grpc) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for name in ("", "inference.GRPCInferenceService", "anything"):
            assert stub.Check(health_pb2.HealthCheckRequest(service=name)).status == health_pb2.HealthCheckResponse.SERVING
        watching = stub.Watch(health_pb2.HealthCheckRequest(), timeout=30)
        assert next(watching).status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(InferenceServerException):
            running.infer(np.ones((1, 3), np.float32))
        assert next(watching).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert stub.Check(health_pb2.HealthCheckRequest()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watching.cancel()


@pytest.mark.parametrize("name", ["é" * 3000, "€" * 4000, "\U0001f600" * 2000, "%" * 4096, "\n" * 4096, "a" * 4100])
def test_a_long_error_text_arrives_with_its_code_whatever_its_characters(
    name: str, stub: service_pb2_grpc.GRPCInferenceServiceStub
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        stub.ModelInfer(request(model_name=name))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert (caught.value.details() or "").startswith("Request for unknown model: '")
    assert (caught.value.details() or "").endswith(" [...]")


@given(st.text(), st.integers(1, 3000))
def test_an_error_text_fits_the_header_and_only_one_that_does_not_is_cut(text: str, times: int) -> None:
    sent, whole = header_text(text * times), printable(text * times, kept="\n")
    assert sent_bytes(sent) <= 4096
    cut = sent.removesuffix(" [...]")
    assert sent == whole or (whole.startswith(cut) and sent != cut and sent_bytes(whole) > 4096)


def sent_bytes(text: str) -> int:
    """The length of a text in the header grpc-message."""
    return len(quote(text, safe=string.printable.strip().replace("%", "") + " "))
