# SPDX-License-Identifier: Apache-2.0
"""A thousand clients connect at once, each on a connection of its own, and each gets its answer."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc.aio
import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from tests.faults.raw import request
from tests.faults.site import Site, X, infer, others, site, write_site
from tests.server.python_models import DOUBLE, source, write_python

CROWD = 1000
MODELS = {"double": 2, "triple": 3, "six": 6}
FEW_FILES = 1024


@contextmanager
def few_files() -> Iterator[None]:
    """The soft limit that a login shell gives; programs started meanwhile inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW_FILES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 8 * CROWD), hard))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with ExitStack() as stack:
        with few_files():
            running = stack.enter_context(site(write_site(tmp_path_factory.mktemp("site") / "models")))
        yield running


def wanted(n: int) -> tuple[str, np.ndarray, np.ndarray]:
    """The n-th client's (model, x, y)."""
    model = list(MODELS)[n % len(MODELS)]
    x = np.full((1, 3), n, np.float32)
    return model, x, MODELS[model] * x


async def over_grpc(target: str, n: int, together: asyncio.Barrier) -> bool:
    model, x, y = wanted(n)
    async with grpc.aio.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        call: Any = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        await together.wait()
        answer = service_pb2.ModelInferResponse.FromString(await call(request(model, x), timeout=100))
        await together.wait()  # nobody leaves before everybody has been served
    return answer.raw_output_contents[0] == y.tobytes()


async def over_http(address: tuple[str, int], n: int, together: asyncio.Barrier) -> bool:
    model, x, y = wanted(n)
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 3], "data": x.tolist()}
    body = json.dumps({"inputs": [tensor]}).encode()
    await together.wait()
    reader, writer = await asyncio.open_connection(*address)
    writer.write(f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: t\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    answer = json.loads(await reader.readexactly(int(head.split("content-length: ")[1].split("\r\n")[0])))
    await together.wait()
    writer.close()
    return bool(answer["outputs"][0]["data"] == y.ravel().tolist())


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_thousand_clients_at_once_are_all_answered(running: Site, protocol: str) -> None:
    async def crowd() -> list[bool]:
        together = asyncio.Barrier(CROWD)
        if protocol == "grpc":
            clients = (over_grpc(running.program.grpc, n, together) for n in range(CROWD))
        else:
            clients = (over_http(running.address("HTTPService"), n, together) for n in range(CROWD))
        async with asyncio.timeout(120):
            return await asyncio.gather(*clients)

    before = running.metrics()
    with others(running) as clients:
        assert all(asyncio.run(crowd()))
        clients.more(10)
    after = running.metrics()
    success = 'nv_inference_request_success{model="double",version="1"}'
    assert after[success] - before[success] >= CROWD // len(MODELS)
    failed = {name: value for name, value in after.items() if "request_failure" in name and value}
    assert not failed
    assert not [line for line in running.program.lines if line.startswith(("E", "W"))]


def test_the_program_raises_its_limit_of_open_files_by_itself(running: Site) -> None:
    limits = Path(f"/proc/{running.program.process.pid}/limits").read_text()
    soft, hard = next(line.split()[3:5] for line in limits.splitlines() if line.startswith("Max open files"))
    assert soft == hard
    assert int(soft) > FEW_FILES


def is_ready(running: Site) -> bool:
    """Ask on a new connection, which may be shut down while the server still has those that their client has closed."""
    with suppress(OSError):
        return running.metrics()["hypersonic_ready"] == 1
    return False


def test_more_connections_than_open_files_wait_and_nobody_who_is_connected_notices(tmp_path: Path) -> None:
    write_python(tmp_path, "double", source(DOUBLE))
    with (
        site(tmp_path, limits="--nofile=200:200") as running,
        others(running, {"double": 2.0}) as clients,
        running.client() as client,
    ):
        infer(client, "double", X)
        assert (
            "this process may have only 200 open files, and each connection takes one: raise the hard limit"
            in running.program.log
        )
        with ExitStack() as stack:
            for _ in range(300):
                stack.enter_context(socket.create_connection(running.address("HTTPService"), timeout=60))
            running.wait_for(lambda: "out of system resource" in running.program.log)
            clients.more(10)
            np.testing.assert_array_equal(infer(client, "double", X), 2 * X)
        running.wait_for(lambda: is_ready(running))
        clients.more(10)
