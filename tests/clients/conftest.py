# SPDX-License-Identifier: Apache-2.0
"""The servers that the client programs talk to, and tritonclient's four clients.

Every program runs against ours, on models of the `python` backend and, where ONNX has the operators, of `onnxruntime`. With
HYPERSONIC_CLIENTS_ASK_TRITON=1 in the environment the same programs run against the real tritonserver, too.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any, NamedTuple

import pytest
import tritonclient.grpc
import tritonclient.grpc.aio
import tritonclient.http
import tritonclient.http.aio

from hypersonic.building.model import build
from tests.clients import repository
from tests.clients.networks import Network, on_card, summing
from tests.reference import servers
from tests.reference.restarting import Restarting
from tests.reference.servers import Served

SERVERS = ("hypersonic", *(("triton",) if os.environ.get("HYPERSONIC_CLIENTS_ASK_TRITON") else ()))
_EXPLICIT = ("--model-control-mode=explicit", "--load-model=*")


class Asked(NamedTuple):
    """A server, and the name of one of its models."""

    server: Served
    model: str

    def named(self, name: str) -> str:
        """Another model of the same backend."""
        return f"{name}_onnx" if self.model.endswith("_onnx") else name


@pytest.fixture(scope="session")
def tritons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restarting[Served]]:
    def start() -> AbstractContextManager[Served]:
        directory = tmp_path_factory.mktemp("triton")
        return servers.triton(directory, repository.write_python(directory / "models"), *_EXPLICIT)

    with closing(Restarting(start, lambda served: served)) as restarting:
        yield restarting


@pytest.fixture
def triton(tritons: Restarting[Served]) -> Iterator[Served]:
    """The real server, started again if an earlier test crashed it."""
    yield tritons.running()
    if tritons.has_crashed():
        pytest.fail(f"the reference crashed in this test, which says nothing of it: {tritons.crashes[-1]}")


@pytest.fixture(scope="session")
def hypersonic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("hypersonic")
    with servers.hypersonic(directory, repository.write_both(directory / "models"), *_EXPLICIT) as served:
        yield served


@pytest.fixture(scope="session")
def card(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Our server, with FACILE on an emulated card."""
    directory = tmp_path_factory.mktemp("card")
    build("facile", target="sw_emu", repository=directory / "models")
    with servers.hypersonic(directory, directory / "models") as served:
        yield served


@pytest.fixture(params=[*SERVERS, "hypersonic-onnxruntime", "card"])
def network(request: pytest.FixtureRequest) -> Network:
    """The network that the client programs query, on each backend."""
    server, _, backend = request.param.partition("-")
    served: Served = request.getfixturevalue(server)
    return on_card(served) if server == "card" else summing(served, "facile_onnx" if backend else "facile")


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> Served:
    serving: Served = request.getfixturevalue(request.param)
    return serving


def _asked(name: str) -> Any:
    """Return a fixture: the model of that name in Python, and on our server also as an ONNX graph."""

    @pytest.fixture(params=[*SERVERS, "hypersonic-onnxruntime"], name=name)
    def fixture(request: pytest.FixtureRequest) -> Asked:
        server, _, backend = request.param.partition("-")
        return Asked(request.getfixturevalue(server), f"{name}_onnx" if backend else name)

    return fixture


simple = _asked("simple")
simple_int8 = _asked("simple_int8")
simple_string = _asked("simple_string")
simple_identity = _asked("simple_identity")
simple_sequence = _asked("simple_sequence")
simple_dyna_sequence = _asked("simple_dyna_sequence")
custom_identity_int32 = _asked("custom_identity_int32")
controlled = _asked("controlled")
channels = _asked("channels")
image_channels = _asked("image_channels")
mycnn = _asked("mycnn")


class Flavour(NamedTuple):
    """One of tritonclient's four clients. module: has its InferenceServerClient, InferInput and InferRequestedOutput."""

    name: str
    module: Any

    @property
    def is_grpc(self) -> bool:
        return self.name.startswith("grpc")

    @contextmanager
    def client(self, server: Served, **options: Any) -> Iterator[Any]:
        """Open a client whose calls block; the calls of an asyncio client run one by one in an event loop of its own."""
        url = server.grpc if self.is_grpc else server.http
        if self.name.endswith("aio"):
            with asyncio.Runner() as runner:
                client = runner.run(_make(self.module, url, options))
                try:
                    yield _Waiting(client, runner)
                finally:
                    runner.run(client.close())
        else:
            with self.module.InferenceServerClient(url, **options) as client:
                yield client

    def tensor(self, name: str, x: Any, datatype: str, *, binary: bool = True) -> Any:
        """binary: send binary data over HTTP; gRPC always does."""
        tensor = self.module.InferInput(name, list(x.shape), datatype)
        tensor.set_data_from_numpy(x, **({} if self.is_grpc else {"binary_data": binary}))
        return tensor

    def output(self, name: str, *, binary: bool = True, class_count: int = 0) -> Any:
        binary_data = {} if self.is_grpc else {"binary_data": binary}
        return self.module.InferRequestedOutput(name, class_count=class_count, **binary_data)

    def told(self, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Return the answer of the call as its JSON dictionary (over gRPC, 64-bit integers are strings)."""
        return call(*args, **named, **({"as_json": True} if self.is_grpc else {}))


class _Waiting:
    """An asyncio client with blocking calls."""

    def __init__(self, client: Any, runner: asyncio.Runner) -> None:
        self._client, self._runner = client, runner

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._client, name)
        return lambda *args, **named: self._runner.run(call(*args, **named))


async def _make(module: Any, url: str, options: dict[str, Any]) -> Any:
    return module.InferenceServerClient(url, **options)


FLAVOURS = (
    Flavour("grpc", tritonclient.grpc),
    Flavour("http", tritonclient.http),
    Flavour("grpc-aio", tritonclient.grpc.aio),
    Flavour("http-aio", tritonclient.http.aio),
)


@pytest.fixture(params=FLAVOURS, ids=[flavour.name for flavour in FLAVOURS])
def flavour(request: pytest.FixtureRequest) -> Flavour:
    chosen: Flavour = request.param
    return chosen
