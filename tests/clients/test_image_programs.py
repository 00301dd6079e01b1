# SPDX-License-Identifier: Apache-2.0
"""image_client, grpc_image_client and ensemble_image_client: the top classes of images, by the classification extension."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import grpc
import numpy as np
import pytest
from tritonclient.grpc import model_config_pb2, service_pb2, service_pb2_grpc
from tritonclient.utils import deserialize_bytes_tensor, triton_to_np_dtype

from tests.clients.calls.examples import config_of
from tests.clients.calls.grpc_examples import WAIT_S, Answers, answer, put
from tests.clients.conftest import FLAVOURS, Asked, Flavour

#: red, green and blue of pictures of one colour; no two channels of one picture alike
COLOURS = ((200, 100, 50), (10, 250, 90), (1, 2, 3))
LABELS = ("red", "green", "blue")
GRPC, HTTP = FLAVOURS[:2]


class Classifier(NamedTuple):
    """The facts that an image client reads from metadata and configuration. shape: (channels, height, width)."""

    input: str
    output: str
    datatype: str
    shape: tuple[int, ...]
    max_batch_size: int


def parse(metadata: Any, config: Any) -> Classifier:
    """From JSON's form of either; asserts what the programs demand of a classification network."""
    (given,), (wanted,) = metadata["inputs"], metadata["outputs"]
    assert config["input"][0]["format"] == "FORMAT_NCHW"
    assert wanted["datatype"] == "FP32"
    assert len([dim for dim in wanted["shape"][1:] if int(dim) > 1]) == 1
    shape = tuple(int(dim) for dim in given["shape"][1:])
    assert len(shape) == 3
    return Classifier(given["name"], wanted["name"], given["datatype"], shape, config["max_batch_size"])


def scaled(model: Classifier) -> np.ndarray:
    """The pictures as --scaling INCEPTION makes them: -1 to 1, channel first."""
    flat = np.array(COLOURS, triton_to_np_dtype(model.datatype))[:, :, None, None]
    return np.broadcast_to(flat / 127.5 - 1, (len(COLOURS), *model.shape)).astype(flat.dtype)


def batches(size: int) -> list[list[int]]:
    """Pictures of each request; the last is filled up from the first picture on."""
    count = -(-len(COLOURS) // size)
    return [[(i * size + j) % len(COLOURS) for j in range(size)] for i in range(count)]


def expected(picture: int, count: int) -> list[tuple[str, str]]:
    """(index, label) of the brightest channels."""
    order = sorted(range(3), key=lambda c: -COLOURS[picture][c])[:count]
    return [(str(c), LABELS[c]) for c in order]


def classes(row: Any) -> list[tuple[str, str]]:
    classes = []
    for text in row:
        value, index, label = text.decode().split(":")
        assert -1 <= float(value) <= 1
        classes.append((index, label))
    return classes


class Request(NamedTuple):
    """One batch, ready to be sent."""

    pictures: list[int]
    inputs: list[Any]
    outputs: list[Any]


def requests(flavour: Flavour, model: Classifier, size: int, count: int) -> Iterator[Request]:
    images = scaled(model)
    for pictures in batches(size):
        put = flavour.tensor(model.input, images[pictures], model.datatype)
        yield Request(pictures, [put], [flavour.output(model.output, class_count=count)])


def described(flavour: Flavour, client: Any, model: str) -> Classifier:
    return parse(flavour.told(client.get_model_metadata, model), config_of(flavour, client, model))


def check(results: list[Any], sent: list[Request], count: int, output: str) -> None:
    for result, request in zip(results, sent, strict=True):
        scores = result.as_numpy(output)
        assert scores.shape == (len(request.pictures), count)
        assert [classes(row) for row in scores] == [expected(picture, count) for picture in request.pictures]


@pytest.mark.parametrize(("size", "count"), [(1, 1), (2, 3), (4, 2)])
def test_image_client(channels: Asked, flavour: Flavour, size: int, count: int) -> None:
    with flavour.client(channels.server) as client:
        model = described(flavour, client, channels.model)
        assert size <= model.max_batch_size
        sent = list(requests(flavour, model, size, count))
        results = [client.infer(channels.model, r.inputs, outputs=r.outputs, model_version="1") for r in sent]
    check(results, sent, count, model.output)


@pytest.mark.parametrize("stream", [False, True])
def test_image_client_with_callbacks(channels: Asked, stream: bool) -> None:
    """--async and --streaming; the request id says which picture an answer belongs to."""
    answers: Answers = queue.SimpleQueue()
    with GRPC.client(channels.server) as client:
        model = described(GRPC, client, channels.model)
        sent = list(requests(GRPC, model, 2, 2))
        if stream:
            client.start_stream(partial(put, answers))
        for i, r in enumerate(sent):
            if stream:
                client.async_stream_infer(channels.model, r.inputs, request_id=str(i), outputs=r.outputs)
            else:
                client.async_infer(channels.model, r.inputs, partial(put, answers), request_id=str(i), outputs=r.outputs)
        results = sorted((answer(answers) for _ in sent), key=lambda result: int(result.get_response().id))
    check(results, sent, 2, model.output)


def test_image_client_in_greenlets(channels: Asked) -> None:
    with HTTP.client(channels.server, concurrency=20) as client:
        model = described(HTTP, client, channels.model)
        sent = list(requests(HTTP, model, 2, 2))
        under_way = [client.async_infer(channels.model, r.inputs, outputs=r.outputs) for r in sent]
        check([request.get_result() for request in under_way], sent, 2, model.output)


def raw_requests(model: str, size: int, count: int) -> list[Any]:
    """As grpc_image_client fills the messages."""
    images = scaled(Classifier("PIXELS", "SCORES", "FP32", (3, 4, 4), 4))
    requests = []
    for pictures in batches(size):
        request = service_pb2.ModelInferRequest(model_name=model)
        request.inputs.add(name="PIXELS", datatype="FP32", shape=[size, 3, 4, 4])
        request.outputs.add(name="SCORES").parameters["classification"].int64_param = count
        request.raw_input_contents.append(images[pictures].tobytes())
        requests.append(request)
    return requests


@pytest.mark.parametrize("mode", ["unary", "future", "stream"])
def test_grpc_image_client(channels: Asked, mode: str) -> None:
    sent = raw_requests(channels.model, 2, 3)
    with grpc.insecure_channel(channels.server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        config = stub.ModelConfig(service_pb2.ModelConfigRequest(name=channels.model)).config
        assert config.input[0].format == model_config_pb2.ModelInput.FORMAT_NCHW
        if mode == "stream":
            streamed = list(stub.ModelStreamInfer(iter(sent), timeout=WAIT_S))
            assert not [response.error_message for response in streamed if response.error_message]
            answers = [response.infer_response for response in streamed]
        elif mode == "future":
            answers = [call.result() for call in [stub.ModelInfer.future(request, timeout=WAIT_S) for request in sent]]
        else:
            answers = [stub.ModelInfer(request, timeout=WAIT_S) for request in sent]
    for response, pictures in zip(answers, batches(2), strict=True):
        (output,), (raw,) = response.outputs, response.raw_output_contents
        rows = np.reshape(deserialize_bytes_tensor(raw), output.shape)
        assert [classes(row) for row in rows] == [expected(picture, 3) for picture in pictures]


@pytest.mark.parametrize("count", [1, 3])
def test_ensemble_image_client(image_channels: Asked, flavour: Flavour, count: int) -> None:
    """The image files are sent as they are."""
    files = np.array([[b"P6 4 4 255\n" + bytes(colour) * 16] for colour in COLOURS], np.bytes_)
    with flavour.client(image_channels.server) as client:
        metadata = flavour.told(client.get_model_metadata, image_channels.model)
        (given,), outputs = metadata["inputs"], [tensor["name"] for tensor in metadata["outputs"]]
        assert config_of(flavour, client, image_channels.model)["max_batch_size"] >= len(files)
        result = client.infer(
            image_channels.model,
            [flavour.tensor(given["name"], files, "BYTES")],
            outputs=[flavour.output(name, class_count=count) for name in outputs],
        )
    for name in outputs:
        assert [classes(row) for row in result.as_numpy(name)] == [expected(picture, count) for picture in range(len(files))]
