# SPDX-License-Identifier: Apache-2.0
"""The backend in the oldest tritonserver that a package has and that loads it: what came later is optional."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from tritonclient import grpc

from tests.server.backends.fpga.repositories import Repository, linked
from tests.support import environments
from tests.support.triton_program import triton_program
from tests.triton.rows import ask, expected, rows_of

pytestmark = pytest.mark.whole("triton", "tests/triton/oldest.txt")


def test_the_oldest_server_loads_the_backend_and_answers(tmp_path: Path, image: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    python = environments.interpreter(tuple(environments.PYTHONS))
    site = environments.site_packages(environments.environment(Path(__file__).with_name("oldest.txt")))
    program = site / "pytriton" / "tritonserver" / "bin" / "tritonserver"
    monkeypatch.setenv("LD_LIBRARY_PATH", os.pathsep.join([str(site / "nvidia_pytriton.libs"), python.libraries]))
    Repository(tmp_path / "models").publish("m", linked(image, 2))
    x = rows_of(40, 1)
    repository = f"--model-repository={tmp_path / 'models'}"
    with triton_program(repository, given=program) as server, grpc.InferenceServerClient(server.grpc) as client:
        assert client.get_server_metadata().version == "2.36.0"
        np.testing.assert_array_equal(ask(client, x), expected(x))
