# SPDX-License-Identifier: Apache-2.0
"""image_client, grpc_image_client and ensemble_image_client: the top classes of images, by classification extension."""

from __future__ import annotations

from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import deserialize_bytes_tensor

from tests.clients.conftest import Asked
from tests.reference.servers import Served

#: red, green and blue of pictures of one colour; no two channels of one picture alike
COLOURS = ((200, 100, 50), (10, 250, 90))
LABELS = ("red", "green", "blue")


def pixels() -> np.ndarray:
    flat = np.array(COLOURS, np.float32)[:, :, None, None] / 255
    return np.broadcast_to(flat, (len(COLOURS), 3, 4, 4)).copy()


def expected(colour: tuple[int, ...], count: int) -> list[tuple[str, str]]:
    """(index, label) of the brightest channels."""
    order = sorted(range(3), key=lambda c: -colour[c])[:count]
    return [(str(c), LABELS[c]) for c in order]


def classes(row: Any) -> list[tuple[str, str]]:
    found = []
    for text in row:
        value, index, label = text.decode().split(":")
        assert 0 <= float(value) <= 1
        found.append((index, label))
    return found


@pytest.mark.parametrize("module", [tritonclient.grpc, tritonclient.http], ids=["grpc", "http"])
@pytest.mark.parametrize("count", [1, 3])
def test_classes_of_a_batch(channels: Asked, module: Any, count: int) -> None:
    url = channels.server.grpc if module is tritonclient.grpc else channels.server.http
    with module.InferenceServerClient(url) as client:
        put = module.InferInput("PIXELS", [2, 3, 4, 4], "FP32")
        put.set_data_from_numpy(pixels())
        result = client.infer(channels.model, [put], outputs=[module.InferRequestedOutput("SCORES", class_count=count)])
    scores = result.as_numpy("SCORES")
    assert scores.shape == (2, count)
    assert [classes(row) for row in scores] == [expected(colour, count) for colour in COLOURS]


def test_classes_by_the_raw_stub_in_a_stream(channels: Asked) -> None:
    with grpc.insecure_channel(channels.server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        found = stub.ModelMetadata(service_pb2.ModelMetadataRequest(name=channels.model))
        assert [list(t.shape) for t in found.inputs] == [[-1, 3, 4, 4]]
        requests = []
        for i in range(2):
            request = service_pb2.ModelInferRequest(model_name=channels.model, id=str(i))
            request.inputs.add(name="PIXELS", datatype="FP32", shape=[1, 3, 4, 4])
            request.raw_input_contents.append(pixels()[i].tobytes())
            request.outputs.add(name="SCORES").parameters["classification"].int64_param = 2
            requests.append(request)
        answers = [answer.infer_response for answer in stub.ModelStreamInfer(iter(requests), timeout=60)]
    assert [answer.id for answer in answers] == ["0", "1"]
    for answer, colour in zip(answers, COLOURS, strict=True):
        assert classes(deserialize_bytes_tensor(answer.raw_output_contents[0])) == expected(colour, 2)


@pytest.mark.parametrize("module", [tritonclient.grpc, tritonclient.http], ids=["grpc", "http"])
def test_an_ensemble_takes_the_files_themselves(server: Served, module: Any) -> None:
    files = [b"P6 4 4 255\n" + bytes(colour) * 16 for colour in COLOURS]
    with module.InferenceServerClient(server.grpc if module is tritonclient.grpc else server.http) as client:
        put = module.InferInput("IMAGE", [2, 1], "BYTES")
        put.set_data_from_numpy(np.array([[file] for file in files], np.object_))
        result = client.infer("image_channels", [put], outputs=[module.InferRequestedOutput("SCORES", class_count=1)])
    assert [classes(row) for row in result.as_numpy("SCORES")] == [expected(colour, 1) for colour in COLOURS]
