# SPDX-License-Identifier: Apache-2.0
"""FPGA models beside models of Triton's python backend in tritonserver: an ensemble, and a model that calls one (BLS)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tritonclient import grpc
from tritonclient.utils import InferenceServerException

from hypersonic.firmware.target import Target
from hypersonic.host.library import library_path
from hypersonic.triton.compile import BACKEND, backend_library
from tests.reference import environment, servers
from tests.server.backends.fpga.repositories import Repository, linked
from tests.triton import rows
from tests.triton.rows import COLUMNS, POISON, Rows, expected, rows_of

pytestmark = pytest.mark.whole(
    "triton", "host/errors.py", "sim/emu", "tests/reference/environment.py", "tests/reference/servers.py"
)

TENSORS = """
input [ { name: "x" data_type: TYPE_FP32 dims: [ 18 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ %d ] } ]
"""
#: adds 1 to each number
PLUS = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        tensors = [pb_utils.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", tensor + 1)]) for tensor in tensors]
"""
#: answers three times what the FPGA model `m` answers
CALLER = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(pb_utils.get_input_tensor_by_name(request, "x")) for request in requests]

    def answer(self, x):
        called = pb_utils.InferenceRequest(model_name="m", requested_output_names=["y"], inputs=[x]).exec()
        if called.has_error():
            return pb_utils.InferenceResponse(error=called.error())
        y = pb_utils.get_output_tensor_by_name(called, "y")
        return pb_utils.InferenceResponse([pb_utils.Tensor("y", 3 * y.as_numpy())])
"""
ENSEMBLE = (
    """platform: "ensemble" max_batch_size: 16"""
    + TENSORS % 1
    + """
ensemble_scheduling { step [
  { model_name: "plus" model_version: -1 input_map { key: "x" value: "x" } output_map { key: "y" value: "more" } },
  { model_name: "m" model_version: -1 input_map { key: "x" value: "more" } output_map { key: "y" value: "y" } }
] }
"""
)


def add_python_model(repository: Path, name: str, code: str, columns: int) -> None:
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "1" / "model.py").write_text(code)
    (repository / name / "config.pbtxt").write_text('backend: "python" max_batch_size: 16' + TENSORS % columns)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, image: bytes) -> Iterator[servers.Served]:
    place = tmp_path_factory.mktemp("models")
    Repository(place).publish("m", linked(image))
    add_python_model(place, "plus", PLUS, COLUMNS)
    add_python_model(place, "caller", CALLER, 1)
    (place / "chain" / "1").mkdir(parents=True)
    (place / "chain" / "config.pbtxt").write_text(ENSEMBLE)
    backends = tmp_path_factory.mktemp("backends")
    (backends / BACKEND).symlink_to(backend_library().parent)
    (given,) = [word for word in environment.tritonserver().argv if word.startswith("--backend-directory=")]
    (backends / "python").symlink_to(Path(given.partition("=")[2]) / "python")
    options = [f"--backend-directory={backends}", "--backend-config=fpga,emulation=true"]
    options.append(f"--backend-config=fpga,emulation-library={library_path(Target.SW_EMU)}")
    with servers.triton(tmp_path_factory.mktemp("log"), place, *options) as served:
        yield served


def ask(server: servers.Served, model: str, x: Rows) -> Rows:
    with grpc.InferenceServerClient(server.grpc) as client:
        return rows.ask(client, x, model)


X = rows_of(16, 1)
EXPECTED = expected(X)


def test_an_ensemble_of_a_python_model_and_an_fpga_model_answers_right(server: servers.Served) -> None:
    np.testing.assert_array_equal(ask(server, "chain", X), EXPECTED + 3)


def test_a_python_model_calls_an_fpga_model(server: servers.Served) -> None:
    np.testing.assert_array_equal(ask(server, "caller", X), 3 * EXPECTED)


def test_an_error_of_the_fpga_model_reaches_the_caller_s_client(server: servers.Served) -> None:
    poison = X.copy()
    poison[3, 0] = POISON
    with pytest.raises(InferenceServerException, match="the memory responded to a read with an error"):
        ask(server, "caller", poison)
