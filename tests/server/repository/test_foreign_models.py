# SPDX-License-Identifier: Apache-2.0
"""A repository with models of backends that are not here, beside one that works (docs/coming-from-triton.md)."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton

from hypersonic.server.errors import ModelsFailedError
from tests.server.conftest import CONFIG, Running, Serve, write_model

REASON = "Invalid argument: unable to find backend library for backend '{}', expected one of ['sum']"
HINT = (
    "fix or remove these models, or serve the others with --exit-on-error=false (and --strict-readiness=false, so that the "
    "server is ready without them)"
)
X = np.ones((2, 3), np.float32)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """m works; the others are as PyTorch's and TensorRT's users write them."""
    write_model(tmp_path / "models")
    for name, line in (("resnet", 'backend: "pytorch"'), ("yolo", 'platform: "tensorrt_plan"')):
        (write_model(tmp_path / "models", name) / "config.pbtxt").write_text(CONFIG.replace('backend: "sum"', line))
    return tmp_path / "models"


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    for name, value in (("propagate", True), ("handlers", [])):
        monkeypatch.setattr(logging.getLogger("hypersonic"), name, value)
    caplog.set_level(logging.INFO, "hypersonic")
    return caplog


def reasons(running: Running) -> dict[str, str]:
    with triton.InferenceServerClient(running.grpc) as client:
        return {model.name: model.reason for model in client.get_model_repository_index().models}


@pytest.mark.parametrize("strict", [True, False])
def test_the_models_that_work_are_served_and_the_log_says_whether_the_server_is_ready(
    serve: Serve, repository: Path, log: pytest.LogCaptureFixture, strict: bool
) -> None:
    with serve(repository=repository, exit_on_error=False, strict_readiness=strict) as running:
        assert reasons(running) == {"m": "", "resnet": REASON.format("pytorch"), "yolo": REASON.format("tensorrt")}
        np.testing.assert_array_equal(running.infer(X), [[3.0], [3.0]])
        with triton.InferenceServerClient(running.grpc) as client:
            assert client.is_server_ready() is not strict
            assert [client.is_model_ready(name) for name in ("m", "resnet")] == [True, False]
    ready = (
        "is NOT ready until they are: fix or remove them, or set --strict-readiness=false"
        if strict
        else "is ready without them (--strict-readiness=false)"
    )
    (message,) = [record.message for record in log.records if "cannot be served" in record.message]
    assert message == f"2 of the models cannot be served: resnet, yolo; the server {ready}"


def test_without_the_option_the_start_ends_and_names_both_options(serve: Serve, repository: Path) -> None:
    with pytest.raises(ModelsFailedError) as caught, serve(repository=repository, exit_on_error=True):
        pass
    assert str(caught.value).splitlines() == [
        "failed to load all models; 2 cannot be served:",
        f"  resnet version 1: {REASON.format('pytorch')}",
        f"  yolo version 1: {REASON.format('tensorrt')}",
        HINT,
    ]
