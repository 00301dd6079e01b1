# SPDX-License-Identifier: Apache-2.0
"""Python code that load requests bring or choose: it runs as the server's user, so only callers with credentials may."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from hypersonic.server.backends.python.backend import PythonBackend
from hypersonic.server.core.inference.backend import Backend
from hypersonic.server.core.scheduling.model import ScheduledModel
from hypersonic.server.errors import InvalidRequestError
from hypersonic.server.options import Options
from hypersonic.server.repository.control_mode import ModelControlMode, ModelControlOptions
from hypersonic.server.repository.models import ModelRepository
from hypersonic.server.wire.security.policies import model_control, policies
from tests.server.conftest import Script, SumBackend, write_model
from tests.server.questions import serving

TOKEN = "a-token-of-an-operator"
#: leaves `ran` in its version's directory when it is imported
MARKING = """
import pathlib
pathlib.Path(__file__).with_name("ran").touch()
class TritonPythonModel:
    def execute(self, requests):
        raise RuntimeError("never asked")
"""
TENSORS = {"input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [3]}],
           "output": [{"name": "y", "data_type": "TYPE_FP32", "dims": [1]}]}  # fmt: skip
TEXT = """
input [ { name: "x" data_type: TYPE_FP32 dims: [ 3 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""


def json_config(**more: Any) -> str:
    return json.dumps({**TENSORS, **more})


def test_python_code_of_a_caller_without_credentials_does_not_run_until_it_is_allowed(tmp_path: Path) -> None:
    ran, models = tmp_path / "ran", tmp_path / "models"
    models.mkdir()
    source = MARKING.replace('pathlib.Path(__file__).with_name("ran")', f"pathlib.Path({str(ran)!r})").encode()

    def load(address: str) -> None:
        with triton.InferenceServerClient(address) as client:
            client.load_model("new", config=json_config(backend="python"), files={"file:1/model.py": source})

    with serving(models, model_control_mode="explicit", more={"python": PythonBackend()}) as running:
        with pytest.raises(InferenceServerException, match=r"code is not accepted .*'--allow-python-override=true'") as no:
            load(running.grpc)
        assert no.value.status() == "StatusCode.INVALID_ARGUMENT"
        assert not ran.exists()
    allowed: dict[str, Any] = {"model_control_mode": "explicit", "allow_python_override": True}
    with serving(models, more={"python": PythonBackend()}, **allowed) as running:
        load(running.grpc)
        assert ran.exists()


@pytest.mark.parametrize(
    ("given", "guarded"),
    [
        ({}, False),
        ({"allow_python_override": True}, True),
        ({"auth_token_file": "TOKENS"}, True),
        ({"auth_token_file": "TOKENS", "auth_exempt": ("health", "model-repository")}, False),
        ({"grpc_restricted_protocol": ("model-repository:k=v",)}, False),
        ({"http_restricted_api": ("model-repository:k=v",)}, False),
        ({"grpc_restricted_protocol": ("model-repository:k=v",), "http_restricted_api": ("model-repository:k=v",)}, True),
        ({"grpc_restricted_protocol": ("trace:k=v",), "http_restricted_api": ("trace:k=v",)}, False),
        ({"grpc_restricted_protocol": ("model-repository:k=v",), "allow_http": False}, True),
        ({"grpc_use_ssl_mutual": True}, False),
        ({"grpc_use_ssl_mutual": True, "http_root_cert": "root.pem"}, True),
        ({"http_root_cert": "root.pem", "allow_grpc": False}, True),
        ({"grpc_use_ssl": True, "http_server_cert": "server.pem"}, False),
    ],
)
def test_python_code_is_taken_where_every_port_asks_its_callers_who_they_are(
    tmp_path: Path, given: dict[str, Any], guarded: bool
) -> None:
    (tmp_path / "tokens").write_text(TOKEN)
    values: dict[str, Any] = {name: str(tmp_path / "tokens") if value == "TOKENS" else value for name, value in given.items()}
    options = Options((tmp_path,), **values)
    assert model_control(options, policies(options)).override.allow_python is guarded


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[ModelRepository]:
    """Model `m` of another backend with python files in its version, and model `p`, whose code is model.py."""
    models = tmp_path / "models"
    (write_model(models) / "1" / "model.py").write_text(MARKING)
    (models / "m" / "1" / "helper.py").write_text(MARKING)
    directory = write_model(models, "p")
    (directory / "config.pbtxt").write_text('backend: "python"' + TEXT)
    for name in ("model.py", "helper.py"):
        (directory / "1" / name).write_text(MARKING)
    backends: dict[str, Backend] = {"sum": SumBackend(Script()), "python": PythonBackend()}
    opened = ModelRepository([models], backends, ScheduledModel, control=ModelControlOptions(ModelControlMode.EXPLICIT))
    yield opened
    assert opened.close(30)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("m", {"backend": "python"}),
        ("m", {"backend": "python", "default_model_filename": "helper.py"}),
        ("m", {}),
        ("m", {"default_model_filename": "model.py"}),
        ("m", {"backend": "sum", "parameters": {"fallback_backend": {"string_value": "python"}}}),
        ("p", {"backend": "python", "default_model_filename": "helper.py"}),
        ("p", {"default_model_filename": "helper.py", "platform": "onnxruntime_onnx", "backend": "python"}),
    ],
)
def test_a_configuration_alone_makes_no_python_code_of_the_repositorys_files(
    tmp_path: Path, repository: ModelRepository, name: str, more: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequestError, match=r"as python code, which the repository's own .*--allow-python-override=true"):
        repository.load(name, {"config": json_config(**more)})
    assert not list(tmp_path.rglob("ran")), "the code has run"


def test_a_configuration_alone_may_change_the_rest_of_a_python_model(tmp_path: Path, repository: ModelRepository) -> None:
    repository.load("p", {"config": json_config(backend="python", max_batch_size=4)})
    assert repository.model("p").config.max_batch_size == 4
    repository.load("m", {"config": json_config(backend="sum", max_batch_size=9)})
    assert repository.model("m").config.max_batch_size == 9
    assert [path.parent.parent.name for path in tmp_path.rglob("ran")] == ["p"]
