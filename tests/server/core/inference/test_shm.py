# SPDX-License-Identifier: Apache-2.0
"""System shared memory regions: what may be registered, what is read and written, and what truncation does."""

from __future__ import annotations

import errno
import os
import re
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException, shared_memory

from hypersonic.server.core.inference.answer import Output
from hypersonic.server.core.inference.shm import SharedMemory
from hypersonic.server.errors import (
    AlreadyExistsError,
    BudgetError,
    InvalidRequestError,
    NotFoundError,
    ServerError,
    SharedMemoryError,
)
from tests.server.conftest import Running, Script, Serve
from tests.support.waiting import wait_until

SIZE = 64


@pytest.fixture
def regions(tmp_path: Path) -> SharedMemory:
    """A registry whose objects are files in a directory of the test's."""
    (tmp_path / "object").write_bytes(bytes(range(SIZE)))
    return SharedMemory(directory=str(tmp_path))


def output(*chunks: bytes | memoryview) -> Output:
    return Output(0, "UINT8", (sum(map(len, chunks)),), chunks, sum(map(len, chunks)))


def test_inputs_are_read_and_outputs_written_where_they_were_registered(regions: SharedMemory, tmp_path: Path) -> None:
    regions.register("r", "/object", 8, 32)
    assert bytes(regions.read("r", 4, 3)) == bytes((12, 13, 14))
    assert regions.span("r", 0, 8).write("y", output(b"abc", b"", memoryview(b"defg"))) == {}
    data = (tmp_path / "object").read_bytes()
    assert data[8:15] == b"abcdefg"
    assert data[:8] + data[15:] == bytes((*range(8), *range(15, SIZE)))
    assert len(data) == SIZE


def test_many_chunks_are_more_than_one_system_call_takes(regions: SharedMemory, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(5000))
    regions.register("r", "large", 0, 5000)
    regions.span("r", 0, 5000).write("y", output(*[bytes((n % 251,)) for n in range(5000)]))
    assert (tmp_path / "large").read_bytes() == bytes(n % 251 for n in range(5000))


def test_a_region_shows_what_was_registered(regions: SharedMemory) -> None:
    regions.register("b", "/object", 0, 4)
    regions.register("a", "object", 4, 8)
    assert regions.status() == (("a", "object", 4, 8), ("b", "/object", 0, 4))
    assert regions.status("b") == (("b", "/object", 0, 4),)
    with pytest.raises(NotFoundError, match=r"^Unable to find system shared memory region: 'c'$"):
        regions.status("c")
    regions.unregister("a")
    regions.unregister("nobody")
    assert [region.name for region in regions.status()] == ["b"]
    regions.unregister()
    assert regions.status() == ()


def test_a_name_is_taken_until_it_is_unregistered(regions: SharedMemory) -> None:
    regions.register("r", "object", 0, 4)
    with pytest.raises(AlreadyExistsError, match=r"^shared memory region 'r' already in manager$"):
        regions.register("r", "object", 0, 4)
    regions.unregister("r")
    regions.register("r", "object", 0, 4)


@pytest.mark.parametrize(
    "key", ["", "/", ".", "..", "/..", "../object", "a/b", "/a/b", "none", "object\0", "x" * 256, "é" * 128, "\ud800"]
)
def test_a_key_names_an_object_directly_inside_the_directory(regions: SharedMemory, key: str) -> None:
    with pytest.raises(SharedMemoryError, match=r"^Unable to open shared memory region: '"):
        regions.register("r", key, 0, 1)


@pytest.mark.parametrize("slashes", ["", "/", "//"])
@pytest.mark.parametrize("prefix", ["triton_python_backend_shm_region_", "hypersonic_", "sem."])
def test_internals_cannot_be_registered(regions: SharedMemory, tmp_path: Path, slashes: str, prefix: str) -> None:
    (tmp_path / f"{prefix}1").write_bytes(bytes(8))
    with pytest.raises(InvalidRequestError) as caught:
        regions.register("r", f"{slashes}{prefix}1", 0, 8)
    assert str(caught.value) == (
        f"cannot register shared memory region 'r' with key '{slashes}{prefix}1' as the key contains the reserved prefix "
        f"'{prefix}'"
    )


def test_only_regular_files_are_objects(regions: SharedMemory, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "object")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    for key in ("link", "fifo", "directory"):
        with pytest.raises(SharedMemoryError):
            regions.register("r", key, 0, 1)


@pytest.mark.parametrize(
    ("offset", "size_bytes"),
    [(0, SIZE + 1), (SIZE, 1), (1, SIZE), (0, 0), (0, -1), (-1, 2), (2**63, 2**63), (1, 2**64 - 1), (2**64 - 1, 2)],
)
def test_a_region_lies_inside_its_object(regions: SharedMemory, offset: int, size_bytes: int) -> None:
    with pytest.raises(InvalidRequestError, match=r"^failed to register shared memory region 'r': invalid args$"):
        regions.register("r", "object", offset, size_bytes)


@pytest.mark.parametrize(
    ("offset", "size_bytes", "text"),
    [
        (16, 1, "Invalid offset for shared memory region: 'r'"),
        (-1, 1, "Invalid offset for shared memory region: 'r'"),
        (2**64 - 1, 2, "Invalid offset for shared memory region: 'r'"),
        (15, 2, "Invalid offset + byte size for shared memory region: 'r'"),
        (0, 0, "Invalid offset + byte size for shared memory region: 'r'"),
        (0, -1, "Invalid offset + byte size for shared memory region: 'r'"),
        (1, 2**64 - 1, "Invalid offset + byte size for shared memory region: 'r'"),
    ],
)
def test_a_tensor_lies_inside_its_region(regions: SharedMemory, offset: int, size_bytes: int, text: str) -> None:
    regions.register("r", "object", 8, 16)
    for use in (regions.read, regions.span):
        with pytest.raises(InvalidRequestError) as caught:
            use("r", offset, size_bytes)
        assert str(caught.value) == text
    with pytest.raises(NotFoundError, match=r"^Unable to find shared memory region: 's'$"):
        regions.read("s", 0, 1)


def test_an_output_larger_than_its_place_is_not_written(regions: SharedMemory, tmp_path: Path) -> None:
    regions.register("r", "object", 0, SIZE)
    with pytest.raises(SharedMemoryError) as caught:
        regions.span("r", 0, 8).write("y", output(bytes(16)))
    assert str(caught.value) == (
        "shared memory size specified with the request for output 'y' (8 bytes) should be at least 16 bytes to hold the results"
    )
    assert (tmp_path / "object").read_bytes() == bytes(range(SIZE))


def test_a_truncated_object_is_its_clients_error(regions: SharedMemory, tmp_path: Path) -> None:
    regions.register("r", "object", 0, SIZE)
    span = regions.span("r", 0, SIZE)
    os.truncate(tmp_path / "object", 10)
    with pytest.raises(SharedMemoryError, match="shorter than when it was registered"):
        regions.read("r", 0, SIZE)
    with pytest.raises(SharedMemoryError, match="shorter than when it was registered"):
        span.write("y", output(bytes(SIZE)))
    assert (tmp_path / "object").stat().st_size == 10
    assert bytes(regions.read("r", 0, 10)) == bytes(range(10))


def test_truncation_after_the_look_at_the_size_is_a_short_read(
    regions: SharedMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    regions.register("r", "object", 0, SIZE)
    read = os.preadv

    def truncated_first(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        os.truncate(tmp_path / "object", 10)
        return read(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", truncated_first)
    with pytest.raises(SharedMemoryError, match="shorter than when it was registered"):
        regions.read("r", 0, SIZE)


def test_a_full_file_system_is_the_requests_error(regions: SharedMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    regions.register("r", "object", 0, SIZE)
    monkeypatch.setattr(os, "pwritev", full)
    with pytest.raises(SharedMemoryError, match="No space left on device"):
        regions.span("r", 0, SIZE).write("y", output(bytes(4)))


def test_a_region_in_use_outlives_its_registration(regions: SharedMemory, tmp_path: Path) -> None:
    regions.register("r", "object", 0, SIZE)
    span = regions.span("r", 0, 4)
    regions.unregister("r")
    assert held_open(tmp_path)
    assert bytes(span.read()) == bytes(range(4))
    del span
    assert not held_open(tmp_path)


def held_open(directory: Path) -> bool:
    """Whether this process has a file of the directory open."""
    return any(str(directory) in str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink())


def test_regions_and_reads_are_bounded(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**40)
    regions = SharedMemory(directory=str(tmp_path), max_regions=2, max_read_bytes=1000)
    regions.register("a", "sparse", 0, 2**40)
    regions.register("b", "sparse", 0, 2**40)
    with pytest.raises(BudgetError, match="2 shared memory regions are registered"):
        regions.register("c", "sparse", 0, 8)
    with pytest.raises(BudgetError, match="exceeds the 1000 bytes"):
        regions.read("a", 0, 2**40)
    assert bytes(regions.read("a", 2**39, 1000)) == bytes(1000)


# over the wire


@pytest.fixture
def running(serve: Serve) -> Iterator[Running]:
    with serve(allow_client_shm=True) as server:
        yield server


@pytest.fixture
def memory() -> Iterator[Any]:
    """A client's shared memory object of 1 KiB; its key is in `.key`."""
    key = f"/test_{uuid4().hex}"
    handle = shared_memory.create_shared_memory_region("region", key, 1024)
    handle.key = key
    yield handle
    shared_memory.destroy_shared_memory_region(handle)


@pytest.mark.parametrize("protocol", [tritonclient.grpc, tritonclient.http])
def test_tritonclient_sends_and_receives_by_shared_memory(running: Running, memory: Any, protocol: Any) -> None:
    url = running.grpc if protocol is tritonclient.grpc else running.http.removeprefix("http://")
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    shared_memory.set_shared_memory_region(memory, [x])
    with protocol.InferenceServerClient(url) as client:
        client.register_system_shared_memory("region", memory.key, 1024)
        given = protocol.InferInput("x", [4, 3], "FP32")
        given.set_shared_memory("region", x.nbytes)
        wanted = protocol.InferRequestedOutput("y")
        wanted.set_shared_memory("region", 16, offset=512)
        client.infer("m", [given], outputs=[wanted])
        y = shared_memory.get_contents_as_numpy(memory, np.float32, [4, 1], offset=512)
        np.testing.assert_array_equal(y, x.sum(axis=1, keepdims=True))
        with pytest.raises(InferenceServerException, match="already in manager"):
            client.register_system_shared_memory("region", memory.key, 1024)
        client.unregister_system_shared_memory()
        with pytest.raises(InferenceServerException, match="Unable to find shared memory region: 'region'"):
            client.infer("m", [given])


def test_truncation_under_a_running_server_is_that_clients_error_alone(running: Running, memory: Any) -> None:
    with tritonclient.grpc.InferenceServerClient(running.grpc) as client:
        client.register_system_shared_memory("region", memory.key, 1024)
        os.truncate(f"/dev/shm{memory.key}", 4)
        given = tritonclient.grpc.InferInput("x", [4, 3], "FP32")
        given.set_shared_memory("region", 48)
        with pytest.raises(InferenceServerException, match="shorter than when it was registered"):
            client.infer("m", [given])
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(running.infer(x), x.sum(axis=1, keepdims=True))


def in_region(size_bytes: int) -> service_pb2.ModelInferRequest:
    """A request whose input is that much of region `region`."""
    message = service_pb2.ModelInferRequest(model_name="m")
    given = message.inputs.add(name="x", datatype="FP32", shape=[4, 3])
    given.parameters["shared_memory_region"].string_param = "region"
    given.parameters["shared_memory_byte_size"].int64_param = size_bytes
    return message


@pytest.fixture
def stub(serve: Serve, memory: Any) -> Iterator[tuple[Running, service_pb2_grpc.GRPCInferenceServiceStub]]:
    """A server that holds at most 1000 bytes and whose runs wait, with region `region` of a gigabyte."""
    os.truncate(f"/dev/shm{memory.key}", 1 << 30)  # of holes
    budget = {"allow_client_shm": True, "max_inflight_bytes": 1000}
    with serve(Script(gate=threading.Event()), **budget) as running, grpc.insecure_channel(running.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        request = service_pb2.SystemSharedMemoryRegisterRequest(name="region", key=memory.key, byte_size=1 << 30)
        stub.SystemSharedMemoryRegister(request)
        yield running, stub


def test_what_is_read_of_a_region_counts_until_the_answer_is_read(stub: Any) -> None:
    running, calls = stub
    admission, request = running.server.service.admission, in_region(48)
    waiting = [calls.ModelInfer.future(request, timeout=60), calls.ModelStreamInfer(iter([request]), timeout=60)]
    wait_until(lambda: admission.size_bytes == 2 * (48 + request.ByteSize()))
    running.script.gate.set()
    assert len(waiting[0].result().raw_output_contents[0]) == 16
    assert [bool(answer.error_message) for answer in waiting[1]] == [False]
    wait_until(lambda: admission.size_bytes == admission.requests == 0)


def test_a_region_larger_than_the_budget_is_refused_before_it_is_read(stub: Any) -> None:
    running, calls = stub
    refused = (
        r"the requests in flight hold \d+ bytes, \d+ of them for this client's address and \d+ for this connection; 1000000000"
    )
    tracemalloc.start()
    try:
        with pytest.raises(grpc.RpcError, match=refused) as caught:
            calls.ModelInfer(in_region(10**9), timeout=60)
        (answer,) = calls.ModelStreamInfer(iter([in_region(10**9)]), timeout=60)
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert re.search(refused, answer.error_message)
    assert most_bytes < 10**7
    wait_until(lambda: running.server.service.admission.size_bytes == running.server.service.admission.requests == 0)


def test_shared_memory_is_off_until_it_is_allowed(serve: Serve, memory: Any) -> None:
    text = r"Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."
    with serve() as running, tritonclient.grpc.InferenceServerClient(running.grpc) as client:
        with pytest.raises(InferenceServerException, match=text):
            client.register_system_shared_memory("region", memory.key, 1024)
        with tritonclient.http.InferenceServerClient(running.http.removeprefix("http://")) as other:
            with pytest.raises(InferenceServerException, match=text):
                other.get_system_shared_memory_status()
            given = tritonclient.http.InferInput("x", [4, 3], "FP32")
            given.set_shared_memory("region", 48)
            with pytest.raises(InferenceServerException, match=text):
                other.infer("m", [given])


def test_every_refusal_is_an_error_of_the_servers(regions: SharedMemory) -> None:
    for error in (SharedMemoryError, AlreadyExistsError, NotFoundError, BudgetError):
        assert issubclass(error, ServerError)
