# SPDX-License-Identifier: Apache-2.0
"""Tensors in POSIX shared memory, by each of tritonclient's clients; CUDA's is refused.

simple_*_shm_client, simple_*_shm_string_client, reuse_infer_objects_client, simple_*_cudashm_client.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException, serialize_byte_tensor, serialized_byte_size

from tests.clients.calls.examples import texts
from tests.clients.conftest import Asked, Flavour

A = np.arange(16, dtype=np.int32).reshape(1, 16)
B = np.ones((1, 16), np.int32)
SIZE = A.nbytes


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


def registered(flavour: Flavour, client: Any) -> set[str]:
    """The server's list: names."""
    status = flavour.told(client.get_system_shared_memory_status)
    return set(status.get("regions", ())) if flavour.is_grpc else {row["name"] for row in status}


def described(flavour: Flavour, result: Any, name: str) -> tuple[str, list[int]]:
    """Datatype and shape of an output that lies in shared memory."""
    output = result.get_output(name)
    return (output.datatype, list(output.shape)) if flavour.is_grpc else (output["datatype"], output["shape"])


def in_region(flavour: Flavour, name: str, datatype: str, place: str, size_bytes: int, offset: int = 0) -> Any:
    tensor = flavour.module.InferInput(name, [1, 16], datatype)
    tensor.set_shared_memory(place, size_bytes, offset)
    return tensor


def into_region(flavour: Flavour, name: str, place: str, size_bytes: int, offset: int = 0) -> Any:
    wanted_output = flavour.output(name)
    wanted_output.set_shared_memory(place, size_bytes, offset)
    return wanted_output


@pytest.fixture(autouse=True)
def _no_region_stays() -> Iterator[None]:
    yield
    assert not shm.mapped_shared_memory_regions()


def test_integers_in_a_region_each(simple: Asked, flavour: Flavour) -> None:
    with flavour.client(simple.server) as client:
        client.unregister_system_shared_memory()
        client.unregister_cuda_shared_memory()
        with (
            region(client, "output0_data", SIZE) as sums,
            region(client, "output1_data", SIZE) as differences,
            region(client, "input0_data", SIZE) as given0,
            region(client, "input1_data", SIZE) as given1,
        ):
            shm.set_shared_memory_region(given0, [A])
            shm.set_shared_memory_region(given1, [B])
            inputs = [in_region(flavour, f"INPUT{i}", "INT32", f"input{i}_data", SIZE) for i in range(2)]
            outputs = [into_region(flavour, f"OUTPUT{i}", f"output{i}_data", SIZE) for i in range(2)]
            result = client.infer(simple.model, inputs, outputs=outputs)
            assert described(flavour, result, "OUTPUT0") == ("INT32", [1, 16])
            np.testing.assert_array_equal(shm.get_contents_as_numpy(sums, np.int32, [1, 16]), A + B)
            np.testing.assert_array_equal(shm.get_contents_as_numpy(differences, np.int32, [1, 16]), A - B)
            assert registered(flavour, client) == {"output0_data", "output1_data", "input0_data", "input1_data"}
            client.unregister_system_shared_memory()
            assert registered(flavour, client) == set()


def test_integers_at_offsets_of_one_region(simple: Asked, flavour: Flavour) -> None:
    with (
        flavour.client(simple.server) as client,
        region(client, "input_data", 2 * SIZE) as given,
        region(client, "output_data", 2 * SIZE) as wanted,
    ):
        shm.set_shared_memory_region(given, [A, B])
        inputs = [in_region(flavour, f"INPUT{i}", "INT32", "input_data", SIZE, i * SIZE) for i in range(2)]
        outputs = [into_region(flavour, f"OUTPUT{i}", "output_data", SIZE, i * SIZE) for i in range(2)]
        client.infer(simple.model, inputs, outputs=outputs)
        for i, expected in enumerate((A + B, A - B)):
            np.testing.assert_array_equal(shm.get_contents_as_numpy(wanted, np.int32, [1, 16], i * SIZE), expected)


def test_strings(simple_string: Asked, flavour: Flavour) -> None:
    """Elements lie behind each other, each after its length: what is measured is the tensor made so, not the strings."""
    expected = (texts(A + B), texts(A - B))
    given = [serialize_byte_tensor(texts(x)) for x in (A, B)]
    in_bytes = [serialized_byte_size(x) for x in given]
    out_bytes = [serialized_byte_size(serialize_byte_tensor(x)) for x in expected]
    with (
        flavour.client(simple_string.server) as client,
        region(client, "input_data", sum(in_bytes)) as put,
        region(client, "output0_data", out_bytes[0]) as sums,
        region(client, "output1_data", out_bytes[1]) as differences,
    ):
        shm.set_shared_memory_region(put, given)
        offsets = (0, in_bytes[0])
        inputs = [in_region(flavour, f"INPUT{i}", "BYTES", "input_data", in_bytes[i], offsets[i]) for i in range(2)]
        outputs = [into_region(flavour, f"OUTPUT{i}", f"output{i}_data", out_bytes[i]) for i in range(2)]
        result = client.infer(simple_string.model, inputs, outputs=outputs)
        for i, (handle, x) in enumerate(zip((sums, differences), expected, strict=True)):
            assert described(flavour, result, f"OUTPUT{i}") == ("BYTES", [1, 16])
            assert shm.get_contents_as_numpy(handle, np.object_, [1, 16]).tolist() == x.tolist()


def test_the_same_objects_with_and_without_shared_memory(simple: Asked, flavour: Flavour) -> None:
    inputs = [flavour.module.InferInput(f"INPUT{i}", [1, 16], "INT32") for i in range(2)]
    outputs = [flavour.output(f"OUTPUT{i}") for i in range(2)]
    with (
        flavour.client(simple.server) as client,
        region(client, "input_data", 2 * SIZE) as given,
        region(client, "output_data", 2 * SIZE) as wanted,
    ):
        shm.set_shared_memory_region(given, [A, B])
        for b in (B, 2 * B, B):
            for i, (put, get) in enumerate(zip(inputs, outputs, strict=True)):
                if b is B:
                    put.set_shared_memory("input_data", SIZE, i * SIZE)
                    get.set_shared_memory("output_data", SIZE, i * SIZE)
                else:
                    put.set_data_from_numpy((A, b)[i])
                    get.unset_shared_memory()
            result = client.infer(simple.model, inputs, outputs=outputs)
            for i, expected in enumerate((A + b, A - b)):
                refusals = (
                    shm.get_contents_as_numpy(wanted, np.int32, [1, 16], i * SIZE) if b is B else result.as_numpy(f"OUTPUT{i}")
                )
                np.testing.assert_array_equal(refusals, expected)


def test_a_region_that_is_gone_is_refused(simple: Asked, flavour: Flavour) -> None:
    with flavour.client(simple.server) as client:
        with region(client, "gone", SIZE):
            pass
        inputs = [in_region(flavour, f"INPUT{i}", "INT32", "gone", SIZE) for i in range(2)]
        with pytest.raises(InferenceServerException, match="Unable to find shared memory region: 'gone'"):
            client.infer(simple.model, inputs)


def test_an_output_larger_than_its_place_is_refused(simple: Asked, flavour: Flavour) -> None:
    inputs = [flavour.tensor("INPUT0", A, "INT32"), flavour.tensor("INPUT1", B, "INT32")]
    with flavour.client(simple.server) as client, region(client, "small", SIZE):
        get = into_region(flavour, "OUTPUT0", "small", SIZE - 4)
        with pytest.raises(InferenceServerException, match="shared memory size specified with the request for output"):
            client.infer(simple.model, inputs, outputs=[get])


def test_cuda_shared_memory_is_refused_and_the_rest_goes_on(simple: Asked, flavour: Flavour) -> None:
    """There is no GPU: a client that tries learns so, and its clean-up calls work. tritonserver says `invalid args`."""
    handle = base64.b64encode(bytes(64))
    with flavour.client(simple.server) as client:
        client.unregister_cuda_shared_memory()
        with pytest.raises(InferenceServerException, match=r"failed to register (CUDA )?shared memory region: "):
            client.register_cuda_shared_memory("input0_data", handle, 0, SIZE)
        status = flavour.told(client.get_cuda_shared_memory_status)
        assert (status.get("regions", {}) if flavour.is_grpc else status) in ({}, [])
        client.unregister_cuda_shared_memory()
        inputs = [flavour.tensor("INPUT0", A, "INT32"), flavour.tensor("INPUT1", B, "INT32")]
        np.testing.assert_array_equal(client.infer(simple.model, inputs).as_numpy("OUTPUT0"), A + B)
