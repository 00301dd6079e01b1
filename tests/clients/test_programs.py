# SPDX-License-Identifier: Apache-2.0
"""The published examples that exist for each of tritonclient's clients: gRPC and HTTP, blocking and asyncio.

simple_*_infer_client, _string_infer_client, _health_metadata, _model_control, _sequence_sync_infer_client, memory_growth_test.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.clients import repository
from tests.clients.calls.examples import A, B, check_sums, config_of, stepped, steps, texts, totalled
from tests.clients.conftest import Asked, Flavour
from tests.reference.servers import Served


@pytest.mark.parametrize("algorithm", [None, "gzip", "deflate"])
def test_infer(simple: Asked, flavour: Flavour, algorithm: str | None) -> None:
    inputs = [flavour.tensor("INPUT0", A, "INT32", binary=False), flavour.tensor("INPUT1", B, "INT32")]
    outputs = [flavour.output("OUTPUT0"), flavour.output("OUTPUT1", binary=False)]
    options: dict[str, Any] = {"headers": {"test": "1"}}
    if flavour.is_grpc:
        options |= {"compression_algorithm": algorithm, "client_timeout": 60}
    else:
        options |= {"request_compression_algorithm": algorithm, "response_compression_algorithm": algorithm}
        options |= {"query_params": {"test_1": 1, "test_2": 2}}
    with flavour.client(simple.server) as client:
        check_sums(client.infer(simple.model, inputs, outputs=outputs, **options))
        assert len(flavour.told(client.get_inference_statistics, simple.model)["model_stats"]) == 1
        check_sums(client.infer(simple.model, inputs, **options))
        with pytest.raises(InferenceServerException) as caught:
            client.infer("wrong_model_name", inputs, **options)
    assert caught.value.message().startswith("Request for unknown model")


@pytest.mark.parametrize("binary", [True, False])
def test_strings_that_spell_numbers(simple_string: Asked, flavour: Flavour, binary: bool) -> None:
    inputs = [
        flavour.tensor("INPUT0", texts(A), "BYTES", binary=binary),
        flavour.tensor("INPUT1", texts(B), "BYTES", binary=not binary),
    ]
    outputs = [flavour.output("OUTPUT0", binary=binary), flavour.output("OUTPUT1", binary=not binary)]
    with flavour.client(simple_string.server) as client:
        check_sums(client.infer(simple_string.model, inputs, outputs=outputs))


STRINGS = (
    np.array([[b"he\0llo"] * 16], np.object_),
    np.array([[b"\0\1\2\3"] * 16], np.bytes_),
    np.array([[b"", b"\0", "Größe\0".encode(), b"long text"]], np.object_),
)


@pytest.mark.parametrize("x", STRINGS, ids=["null", "blob", "lengths"])
@pytest.mark.parametrize("binary", [True, False])
def test_strings_come_back_as_they_are(simple_identity: Asked, flavour: Flavour, x: np.ndarray, binary: bool) -> None:
    with flavour.client(simple_identity.server) as client:
        result = client.infer(
            simple_identity.model,
            [flavour.tensor("INPUT0", x, "BYTES", binary=binary)],
            outputs=[flavour.output("OUTPUT0", binary=binary)],
        )
    texts = [v if isinstance(v, bytes) else v.encode() for v in result.as_numpy("OUTPUT0")[0]]  # those out of JSON are str
    assert texts == x[0].tolist()


def test_health_and_metadata(simple: Asked, flavour: Flavour) -> None:
    headers = {"test": "1", "dummy": "2"}
    with flavour.client(simple.server) as client:
        assert client.is_server_live(headers=headers)
        assert client.is_server_ready()
        assert client.is_model_ready(simple.model)
        assert not client.is_model_ready("wrong_model_name")
        assert flavour.told(client.get_server_metadata)["name"] == "triton"
        metadata = flavour.told(client.get_model_metadata, simple.model, headers=headers)
        assert metadata["name"] == simple.model
        assert [(t["name"], t["datatype"], [int(d) for d in t["shape"]]) for t in metadata["inputs"]] == [
            (name, "INT32", [-1, 16]) for name in ("INPUT0", "INPUT1")
        ]
        config = config_of(flavour, client, simple.model)
        assert (config["name"], config["max_batch_size"]) == (simple.model, 8)
        with pytest.raises(InferenceServerException, match="Request for unknown model: 'wrong_model_name' is not found"):
            client.get_model_metadata("wrong_model_name")


def test_trace_and_log_settings(server: Served, flavour: Flavour) -> None:
    with flavour.client(server) as client:
        traced = flavour.told(client.get_trace_settings)
        logged = flavour.told(client.get_log_settings)
    if flavour.is_grpc:
        assert traced["settings"]["trace_rate"] == {"value": ["1000"]}
        assert logged["settings"]["log_error"] == {"bool_param": True}
    else:
        assert traced["trace_rate"] == "1000"
        assert logged["log_error"] is True


def test_the_index_has_every_model(server: Served, flavour: Flavour) -> None:
    there = {*repository.PYTHON, *(repository.ONNX if server.name == "hypersonic" else ())}
    with flavour.client(server) as client:
        index = flavour.told(client.get_model_repository_index)
    names = [row["name"] for row in (index["models"] if flavour.is_grpc else index)]
    assert sorted(names) == sorted(there | ({"image_channels_onnx"} if server.name == "hypersonic" else set()))


def test_model_control(controlled: Asked, flavour: Flavour) -> None:
    """Loading, with another configuration too, unloading, and what is refused; the server serves on."""
    server, model = controlled
    with flavour.client(server) as client:
        client.load_model(model)
        assert client.is_model_ready(model)
        with pytest.raises(InferenceServerException, match="failed to load"):
            client.load_model(model, config='"parameters": {"config": {{"max_batch_size": "16"}}}')
        assert client.is_model_ready(model)
        client.load_model(model, config='{"max_batch_size":"16"}')
        assert config_of(flavour, client, model)["max_batch_size"] == 16
        client.unload_model(model)
        assert not client.is_model_ready(model)
        with pytest.raises(InferenceServerException, match="failed to load 'wrong_model_name'"):
            client.load_model("wrong_model_name")


@pytest.mark.parametrize("model", ["controlled", "controlled_onnx"])
def test_a_file_name_longer_than_a_file_system_takes_is_refused(hypersonic: Served, flavour: Flavour, model: str) -> None:
    """As newer Triton does; tritonserver 2.51 ends at this."""
    text = f"failed to load '{model}', failed to poll from model repository: Invalid file path"
    with flavour.client(hypersonic) as client:
        with pytest.raises(InferenceServerException, match=text) as caught:
            client.load_model(model, config="{}", files={"file:" + "A" * 256: b"a"})
        assert caught.value.status() == ("StatusCode.INTERNAL" if flavour.is_grpc else "500")
        assert client.is_server_live()


def send_sequence(
    flavour: Flavour, client: Any, model: str, identity: int | str, values: Iterator[tuple[int, bool, bool]]
) -> list[int]:
    seen = []
    for value, start, end in values:
        result = client.infer(
            model,
            [flavour.tensor("INPUT", np.array([[value]], np.int32), "INT32")],
            outputs=[flavour.output("OUTPUT")],
            sequence_id=identity,
            sequence_start=start,
            sequence_end=end,
        )
        seen.append(int(result.as_numpy("OUTPUT")[0, 0]))
    return seen


def test_sequences(simple_sequence: Asked, flavour: Flavour) -> None:
    server, model = simple_sequence
    with flavour.client(server) as client:
        for identity, first, sign in ((1000, 0, 1), (1001, 100, -1), (str(uuid.uuid4()), 20, -1)):
            assert send_sequence(flavour, client, model, identity, steps(first, sign)) == stepped(first, sign)


def test_sequences_that_know_their_id(simple_dyna_sequence: Asked, flavour: Flavour) -> None:
    server, model = simple_dyna_sequence
    total = simple_dyna_sequence.named("simple_string_dyna_sequence")
    with flavour.client(server) as client:
        assert send_sequence(flavour, client, model, 1000, steps(0, 1)) == stepped(0, 1, last=1000)
        assert send_sequence(flavour, client, model, 1001, steps(100, -1)) == stepped(100, -1, last=1001)
        if server.name != "triton":  # 2.51 refuses every request to a model with a CORRID of texts
            assert send_sequence(flavour, client, total, "1002", steps(20, -1)) == totalled(20, -1, last=1002)


def test_many_clients_one_after_another(custom_identity_int32: Asked, flavour: Flavour) -> None:
    server, model = custom_identity_int32
    for _ in range(20):
        with flavour.client(server) as client:
            result = client.infer(model, [flavour.tensor("INPUT0", A, "INT32")], outputs=[flavour.output("OUTPUT0")])
            output = result.as_numpy("OUTPUT0")
        assert output.dtype == A.dtype
        np.testing.assert_array_equal(output, A)
