# SPDX-License-Identifier: Apache-2.0
"""The servers that the client programs talk to: the real one, and ours. Every program passes against both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.clients import repository
from tests.reference import environment, servers
from tests.reference.servers import Served


class Asked(NamedTuple):
    """A server and the name of a model there."""

    server: Served
    model: str


@pytest.fixture(scope="session")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("triton")
    try:
        with servers.triton(directory, repository.write_python(directory / "models"), *_EXPLICIT) as served:
            yield served
    except environment.UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def hypersonic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("hypersonic")
    with servers.hypersonic(directory, repository.write_both(directory / "models"), *_EXPLICIT) as served:
        yield served


_EXPLICIT = ("--model-control-mode=explicit", "--load-model=*")


@pytest.fixture(params=["triton", "hypersonic"])
def server(request: pytest.FixtureRequest) -> Served:
    return request.getfixturevalue(request.param)


def _asked(name: str) -> pytest.FixtureRequest:
    """A fixture: both servers' model of that name in Python, and ours as an ONNX graph."""

    @pytest.fixture(params=["triton", "hypersonic", "hypersonic-onnxruntime"], name=name)
    def fixture(request: pytest.FixtureRequest) -> Asked:
        server, _, backend = request.param.partition("-")
        return Asked(request.getfixturevalue(server), f"{name}_onnx" if backend else name)

    return fixture


simple = _asked("simple")
simple_int8 = _asked("simple_int8")
simple_identity = _asked("simple_identity")
channels = _asked("channels")
