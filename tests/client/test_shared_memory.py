# SPDX-License-Identifier: Apache-2.0
"""System shared memory of the client, against the real server."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2

from hypersonic.client import AnswerError, AsyncClient, Client, ClientError, Code, InputError, Limits, Settings
from hypersonic.client.errors import CallError
from hypersonic.client.messages.request import HeadKey
from hypersonic.client.model import Model
from hypersonic.client.servers import is_local
from hypersonic.client.shared_memory import names, sharing
from hypersonic.client.shared_memory.message import lay_out, make_message, mark_outputs, read_shared
from hypersonic.client.shared_memory.region import Region
from hypersonic.client.specs import ModelSpec, TensorSpec
from hypersonic.client.transport.call import Running
from hypersonic.client.transport.grpcio import GrpcioTransport
from hypersonic.server.app import Server
from tests.server.onnx_graphs import TYPES, graph, identity, node, tensors, write_onnx
from tests.server.onnx_runs import same
from tests.server.python_serving import serving
from tests.support.ports import free_ports
from tests.support.waiting import wait_until

AUTO = Settings(shared_memory="auto")
WIDE = 4096
X = np.arange(2 * WIDE, dtype=np.float32).reshape(2, WIDE)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("shared")
    for datatype in TYPES:
        write_onnx(directory, datatype.lower(), identity(datatype, ("N", WIDE)), same(datatype, 64, (WIDE,)))
    given = [("x", "FP32", (WIDE,)), ("s", "BYTES", (WIDE,))]
    made = [("y", "FP32", (WIDE,)), ("t", "BYTES", (WIDE,))]
    inputs, outputs = ([(name, datatype, ("N", WIDE)) for name, datatype, _ in side] for side in (given, made))
    model = graph([node("Identity", "x", "y"), node("Identity", "s", "t")], inputs, outputs)
    write_onnx(directory, "both", model, "max_batch_size: 8\n" + tensors("input", *given) + tensors("output", *made))
    return directory


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[Server]:
    with serving(repository, allow_client_shm=True) as running:
        yield running


@pytest.fixture
def address(server: Server) -> str:
    return server.addresses["GRPCInferenceService"]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The regions that requests were written to."""
    regions: list[str] = []
    monkeypatch.setattr(sharing, "make_message", lambda *given: regions.append(given[4].name) or make_message(*given))
    return regions


@pytest.fixture(autouse=True)
def _no_region_is_left() -> Iterator[None]:
    yield
    assert regions_of(os.getpid()) == set()


def regions_of(pid: int) -> set[str]:
    return {file.name for file in names.DIRECTORY.glob(f"hypersonic-{pid}-*")}


def registered(address: str) -> set[str]:
    with triton.InferenceServerClient(address) as client:
        return set(client.get_system_shared_memory_status().regions)


def warm(model: Model, inputs: object, sent: list[str]) -> None:
    """Infer until requests go through shared memory: the first one only makes the server register the region."""
    wait_until(lambda: model.infer(inputs) is not None and sent, 30)


@pytest.mark.parametrize("datatype", [name for name in TYPES if name != "BYTES"])
def test_every_numeric_datatype_is_the_same_with_and_without(address: str, datatype: str, sent: list[str]) -> None:
    rows = np.random.default_rng(1).integers(0, 2 if datatype == "BOOL" else 100, (8, WIDE))
    with Client(address, AUTO) as client, Client(address) as plain:
        model = client.model(datatype.lower())
        x = rows.astype(model.inputs[0].dtype)
        warm(model, x, sent)
        first = model.infer(x)
        second = model.infer(x[:, ::-1])  # the first answer does not change when its region is used again
        np.testing.assert_array_equal(first, plain.model(datatype.lower()).infer(x), strict=True)
        np.testing.assert_array_equal(second, plain.model(datatype.lower()).infer(x[:, ::-1]), strict=True)
        np.testing.assert_array_equal(first, x)
        assert len(set(sent)) == 1
        assert registered(address) == set(sent)
    assert registered(address) == set()


def test_bytes_stay_in_the_message(address: str, sent: list[str]) -> None:
    s = np.array([[f"{k}" * (k % 5) for k in range(2 * WIDE)]], object).reshape(2, WIDE)
    with Client(address, AUTO) as client:
        words = np.vectorize(str.encode, otypes=[object])(s)
        for _ in range(3):
            np.testing.assert_array_equal(client.model("bytes").infer(s), words)
        assert not sent
        warm(client.model("both"), {"x": X, "s": s}, sent)
        outputs = client.model("both").infer({"x": X, "s": s})
    np.testing.assert_array_equal(outputs["y"], X)
    np.testing.assert_array_equal(outputs["t"], words)


def test_the_outputs_of_a_request_can_be_chosen(address: str, sent: list[str]) -> None:
    inputs = {"x": X, "s": np.full((2, WIDE), b"s", object)}
    with Client(address, AUTO) as client:
        warm(client.model("both"), inputs, sent)
        for outputs in (["y"], ["t"], ["t", "y"]):
            assert list(client.model("both").result(inputs, outputs=outputs).outputs) == outputs
        with pytest.raises(InputError, match="model 'both' has no output 'z', only y, t"):
            client.model("both").infer(inputs, outputs=["z"])
    assert registered(address) == set()


def test_many_requests_at_once_have_a_region_each(address: str, sent: list[str]) -> None:
    with Client(address, AUTO, limits=Limits(in_flight=4)) as client:
        model = client.model("fp32")
        for _ in range(3):
            for result in model.map([k * X for k in range(50)], ordered=False):
                np.testing.assert_array_equal(result.output, result.index * X)
        assert 1 <= len(regions_of(os.getpid())) <= 4
        assert len(sent) > 50
    assert registered(address) == set()


async def infer_all(address: str) -> list[np.ndarray]:
    async with AsyncClient(address, AUTO) as client:
        return [await client.model("fp32").infer(k * X) async for k in counted(20)]


async def counted(n: int) -> AsyncIterator[int]:
    for k in range(n):
        yield k


def test_asyncio_uses_it_too(address: str, sent: list[str]) -> None:
    for k, output in enumerate(asyncio.run(infer_all(address))):
        np.testing.assert_array_equal(output, k * X)
    assert sent


def test_small_requests_go_as_messages(address: str, sent: list[str]) -> None:
    with Client(address, AUTO) as client:
        for _ in range(3):
            client.model("int8").infer(np.ones((1, WIDE), np.int8))
        assert not sent
        assert regions_of(os.getpid()) == set()


def test_a_server_that_allows_none_is_asked_once(repository: Path, caplog: pytest.LogCaptureFixture, sent: list[str]) -> None:
    caplog.set_level(logging.INFO, "hypersonic.client.shared_memory")
    with serving(repository) as running, Client(running.addresses["GRPCInferenceService"], AUTO) as client:
        for _ in range(5):
            np.testing.assert_array_equal(client.model("fp32").infer(X), X)
    assert not sent
    (line,) = [record.message for record in caplog.records if "shared memory" in record.message]
    assert "Client shared memory is disabled" in line


def test_no_request_is_lost_when_the_server_forgets_the_regions(address: str, sent: list[str]) -> None:
    with Client(address, AUTO, retry=()) as client, triton.InferenceServerClient(address) as other:
        model = client.model("fp32")
        warm(model, X, sent)
        for k, infer in enumerate(3 * (model.infer, lambda x: model.submit(x).result(60).output)):
            before = len(sent)
            wait_until(lambda before=before: model.infer(X) is not None and len(sent) > before)
            other.unregister_system_shared_memory()  # as a restart of the server does
            np.testing.assert_array_equal(infer(k * X), k * X)
            assert registered(address) == set()


def test_the_message_that_follows_a_forgotten_region_has_the_time_that_is_left(
    address: str, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[float] = []
    real = GrpcioTransport.start

    def start(transport: GrpcioTransport, method: str, request: bytes, timeout_s: float, *rest: Any) -> Running:
        times.extend([timeout_s] * (method == "ModelInfer"))
        return real(transport, method, request, timeout_s, *rest)

    monkeypatch.setattr(GrpcioTransport, "start", start)
    with Client(address, AUTO, retry=()) as client, triton.InferenceServerClient(address) as other:
        model = client.model("fp32")
        warm(model, X, sent)
        other.unregister_system_shared_memory()
        np.testing.assert_array_equal(model.submit(X).result(60).output, X)
    first, second = times
    assert second < first


def test_no_request_is_lost_when_the_server_is_restarted(repository: Path, sent: list[str]) -> None:
    options = {"allow_client_shm": True, "grpc_port": free_ports(1)[0]}
    with Client(f"127.0.0.1:{options['grpc_port']}", AUTO) as client:
        model = client.model("fp32")
        with serving(repository, **options):
            warm(model, X, sent)
        requests = [model.submit(k * X) for k in range(8)]
        with serving(repository, **options):
            for k, request in enumerate(requests):
                np.testing.assert_array_equal(request.result(60).output, k * X)
            before = len(sent)
            wait_until(lambda: model.infer(X) is not None and len(sent) > before)


def test_a_region_is_not_used_again_while_the_server_may_write_to_it(
    address: str, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    late = threading.Event()
    with Client(address, AUTO, retry=()) as client:
        model = client.model("fp32")
        warm(model, X, sent)
        first = sent[-1]
        transport: Any = client.engine.pool.members[0].transport
        inner = transport._inner.unary

        def cut(method: str, *given):
            if method == "ModelInfer" and not late.is_set():
                late.set()
                raise CallError(Code.DEADLINE_EXCEEDED, "the time is up")  # the server has the request, and will answer
            return inner(method, *given)

        monkeypatch.setattr(transport._inner, "unary", cut)
        with suppress(ClientError):
            model.infer(X)
        assert late.is_set()
        assert first not in regions_of(os.getpid())
        wait_until(lambda: first not in registered(address))
        wait_until(lambda: model.infer(X) is not None and sent[-1] != first)


def test_what_a_server_says_of_an_output_is_checked() -> None:
    spec = ModelSpec("m", "", ("1",), (TensorSpec("x", "FP32", (4,)),), (TensorSpec("y", "FP32", (4,)),), 8)
    array = np.zeros((2, 4), np.float32)
    layout = lay_out(spec, HeadKey("m", "", (("x", "FP32", (2, 4)),), (), ()), [array])
    region = Region(names.make_name(10**9), 1 << 16)
    region.unlink()

    def answer(datatype: str, shape: list[int], raw: tuple[bytes, ...] = (b"",)) -> bytes:
        message = service_pb2.ModelInferResponse(raw_output_contents=raw)
        message.outputs.add(name="y", datatype=datatype, shape=shape)
        return bytes(message.SerializeToString())

    assert read_shared(answer("FP32", [2, 4]), layout, region).outputs["y"].shape == (2, 4)
    assert read_shared(answer("FP32", [1, 1], (b"abcd",)), layout, region).outputs["y"].tobytes() == b"abcd"
    for message in (
        answer("FP32", [2, 5]), answer("FP64", [2, 4]), answer("BYTES", [2, 4]), answer("FP32", [-1, -8]),
        answer("FP33", [1]), answer("FP32", [2**62, 2**62]), answer("FP32", [1], (b"", b"")), answer("FP32", [1], (b"abc",)),
        b"\xff",
    ):  # fmt: skip
        with pytest.raises(AnswerError):
            read_shared(message, layout, region)


@pytest.mark.parametrize("columns", [1, 4])
def test_an_output_that_the_server_has_not_written_is_not_that_of_an_earlier_request(columns: int) -> None:
    spec = ModelSpec("m", "", ("1",), (TensorSpec("x", "FP32", (4,)),), (TensorSpec("y", "FP32", (columns,)),), 8)
    layout = lay_out(spec, HeadKey("m", "", (("x", "FP32", (1, 4)),), (), ()), [np.zeros((1, 4), np.float32)])
    region = Region(names.make_name(10**9), 1 << 16)
    region.unlink()
    message = service_pb2.ModelInferResponse(raw_output_contents=[b""])
    message.outputs.add(name="y", datatype="FP32", shape=[1, columns])
    for value in (1.0, 2.0, np.nan):
        marks = mark_outputs(layout, region)
        with pytest.raises(AnswerError, match="no bytes for output 'y', neither in it nor in shared memory"):
            read_shared(message.SerializeToString(), layout, region, marks)
        y = np.full((1, columns), value, np.float32)
        region.write(layout.outputs["y"].offset, y)
        np.testing.assert_array_equal(read_shared(message.SerializeToString(), layout, region, marks).outputs["y"], y)


def test_an_output_of_a_few_bytes_has_no_mark() -> None:
    spec = ModelSpec("m", "", ("1",), (TensorSpec("x", "FP32", (4,)),), (TensorSpec("y", "UINT8", (3,)),), 8)
    layout = lay_out(spec, HeadKey("m", "", (("x", "FP32", (1, 4)),), (), ()), [np.zeros((1, 4), np.float32)])
    region = Region(names.make_name(10**9), 1 << 16)
    region.unlink()
    assert mark_outputs(layout, region) == {}


PROGRAM = """
import os, signal, sys, time
import numpy as np
from hypersonic.client import Client, Settings
client = Client(sys.argv[1], Settings(shared_memory="auto"))
model = client.model("fp32")
while not client.engine.sharing._regions._all or not any(p._registered for p in client.engine.sharing._places.values()):
    model.infer(np.ones((2, 4096), np.float32))
model.infer(np.ones((2, 4096), np.float32))
print("ready", flush=True)
if sys.argv[2] == "kill":
    time.sleep(1000)
"""


def test_no_region_is_left_after_an_exit_without_close(address: str) -> None:
    argv = [sys.executable, "-c", PROGRAM, address, "exit"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as program:
        assert program.communicate(timeout=120)[0] == "ready\n"
        assert regions_of(program.pid) == set()
        assert registered(address) == set()


def test_the_next_client_removes_what_a_killed_one_has_left(address: str, sent: list[str]) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, address, "kill"], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        with Client(address, AUTO) as client:
            warm(client.model("fp32"), X, sent)
            assert len(regions_of(program.pid)) == 1  # it lives
            assert len(registered(address)) == 2
        program.send_signal(signal.SIGKILL)
    assert len(regions_of(program.pid)) == 1
    assert len(registered(address)) == 1
    with Client(address, AUTO) as client:
        warm(client.model("fp32"), X, sent)
        assert regions_of(program.pid) == set()
        wait_until(lambda: registered(address) == regions_of(os.getpid()))


@pytest.mark.parametrize(
    "name",
    ["", "x", "hypersonic-1-2", "hypersonic-0-1-1", "hypersonic--1-1-1", "/hypersonic-99-1-1", "hypersonic-99-1-1\n",
     "hypersonic-99/../1-1-1", "hypersonic-../../etc-1-1", "hypersonic-²-1-1", f"hypersonic-{'9' * 40}-1-1"],
)  # fmt: skip
def test_a_name_that_is_not_a_region_of_this_client_is_left_alone(name: str) -> None:
    assert not names.is_abandoned(name)


def test_a_region_is_abandoned_when_its_process_or_the_earlier_one_of_its_id_has_ended() -> None:
    own = names.make_name(1)
    pid, start = own.split("-")[1:3]
    assert not names.is_abandoned(own)
    assert names.is_abandoned(f"hypersonic-{pid}-{int(start) + 1}-1")
    with subprocess.Popen(["true"]) as ended:
        pass
    assert names.is_abandoned(f"hypersonic-{ended.pid}-1-1")


def test_a_region_that_a_process_of_another_pid_namespace_holds_is_not_removed() -> None:
    region = Region(f"hypersonic-{os.getpid()}-1-1", 4096)  # as if by an earlier process of this id
    assert names.is_abandoned(region.name)
    names.remove_abandoned()
    assert region.name in regions_of(os.getpid())
    name = region.name
    del region
    names.remove_abandoned()
    assert name not in regions_of(os.getpid())


def test_a_full_directory_means_messages(address: str, sent: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int, _offset: int, _size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with Client(address, AUTO) as client:
        for _ in range(3):
            np.testing.assert_array_equal(client.model("fp32").infer(X), X)
    assert not sent


def test_other_hosts_are_not_asked() -> None:
    assert all(map(is_local, ("localhost:1", "127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "0.0.0.0:1")))
    assert not any(map(is_local, ("192.0.2.1:1", "[2001:db8::1]:1", "example.org:1")))
