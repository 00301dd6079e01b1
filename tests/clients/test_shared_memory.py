# SPDX-License-Identifier: Apache-2.0
"""simple_grpc_shm_client, simple_grpc_shm_string_client and their HTTP twins: tensors in POSIX shared memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException, serialize_byte_tensor, serialized_byte_size

from tests.clients.conftest import Asked
from tests.clients.test_grpc_programs import A, B
from tests.reference.servers import Served

SIZE = A.nbytes


@pytest.fixture(params=[tritonclient.grpc, tritonclient.http], ids=["grpc", "http"])
def module(request: pytest.FixtureRequest) -> Any:
    return request.param


def address(server: Served, module: Any) -> str:
    return server.grpc if module is tritonclient.grpc else server.http


@contextmanager
def region(client: Any, name: str, size_bytes: int) -> Iterator[Any]:
    """A segment of this process, registered with the server meanwhile."""
    key = f"/hypersonic-test-{os.getpid()}-{name}"
    handle = shm.create_shared_memory_region(name, key, size_bytes)
    try:
        client.register_system_shared_memory(name, key, size_bytes)
        yield handle
    finally:
        client.unregister_system_shared_memory(name)
        shm.destroy_shared_memory_region(handle)


def test_integers(simple: Asked, module: Any) -> None:
    with (
        module.InferenceServerClient(address(simple.server, module)) as client,
        region(client, "input", 2 * SIZE) as given,
        region(client, "output", 2 * SIZE) as wanted,
    ):
        shm.set_shared_memory_region(given, [A])
        shm.set_shared_memory_region(given, [B], offset=SIZE)
        inputs = [module.InferInput(name, [1, 16], "INT32") for name in ("INPUT0", "INPUT1")]
        outputs = [module.InferRequestedOutput(name) for name in ("OUTPUT0", "OUTPUT1")]
        for i, (put, get) in enumerate(zip(inputs, outputs, strict=True)):
            put.set_shared_memory("input", SIZE, i * SIZE)
            get.set_shared_memory("output", SIZE, i * SIZE)
        result = client.infer(simple.model, inputs, outputs=outputs)
        assert result.get_output("OUTPUT0") is not None
        for i, expected in enumerate((A + B, A - B)):
            np.testing.assert_array_equal(shm.get_contents_as_numpy(wanted, np.int32, [1, 16], i * SIZE), expected)
        found = client.get_system_shared_memory_status(**({"as_json": True} if module is tritonclient.grpc else {}))
        names = found["regions"].keys() if module is tritonclient.grpc else {entry["name"] for entry in found}
        assert {"input", "output"} <= set(names)


def test_strings(simple_identity: Asked, module: Any) -> None:
    x = np.array([[str(v).encode() for v in range(16)]], np.object_)
    size = serialized_byte_size(x)
    with (
        module.InferenceServerClient(address(simple_identity.server, module)) as client,
        region(client, "strings", size) as given,
        region(client, "answer", size) as wanted,
    ):
        shm.set_shared_memory_region(given, [serialize_byte_tensor(x)])
        put, get = module.InferInput("INPUT0", [1, 16], "BYTES"), module.InferRequestedOutput("OUTPUT0")
        put.set_shared_memory("strings", size)
        get.set_shared_memory("answer", size)
        client.infer(simple_identity.model, [put], outputs=[get])
        assert shm.get_contents_as_numpy(wanted, np.object_, [1, 16]).tolist() == x.tolist()


def test_a_region_that_is_gone_is_refused(simple: Asked, module: Any) -> None:
    with module.InferenceServerClient(address(simple.server, module)) as client:
        with region(client, "gone", SIZE):
            pass
        inputs = [module.InferInput(name, [1, 16], "INT32") for name in ("INPUT0", "INPUT1")]
        for put in inputs:
            put.set_shared_memory("gone", SIZE)
        with pytest.raises(InferenceServerException, match="Unable to find shared memory region: 'gone'"):
            client.infer(simple.model, inputs)


def test_an_output_larger_than_its_place_is_refused(simple: Asked, module: Any) -> None:
    with module.InferenceServerClient(address(simple.server, module)) as client, region(client, "small", SIZE - 4):
        inputs = [module.InferInput(name, [1, 16], "INT32") for name in ("INPUT0", "INPUT1")]
        for put in inputs:
            put.set_data_from_numpy(A)
        get = module.InferRequestedOutput("OUTPUT0")
        get.set_shared_memory("small", SIZE - 4)
        with pytest.raises(InferenceServerException, match="shared memory size specified with the request for output"):
            client.infer(simple.model, inputs, outputs=[get])
