# SPDX-License-Identifier: Apache-2.0
"""Whether what a load request brings may run here: code of python models runs as the server's user, an xclbin drives a card."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from tritonclient.grpc import model_config_pb2

from hypersonic.server.backends.known import BACKENDS
from hypersonic.server.config.read import infer_backend
from hypersonic.server.errors import InvalidRequestError
from hypersonic.server.repository.override import OverridePolicy, check_backend

_FALLBACK = "fallback_backend"


def check_files(message: model_config_pb2.ModelConfig, files: Collection[str], policy: OverridePolicy) -> None:
    """Of a request with files: which backends they are for, once `message` names its own. Raises InvalidRequestError."""
    infer_backend(message, files, BACKENDS)
    for backend in (message.backend, *(parameter.string_value for parameter in message.parameters.values())):
        check_backend(backend, policy)


def check_alone(
    message: model_config_pb2.ModelConfig,
    own: model_config_pb2.ModelConfig | None,
    directories: Iterable[Path],
    policy: OverridePolicy,
) -> None:
    """Of a request with a configuration alone: it may not turn a file of the repository into python code.

    own: the repository's configuration, None where it cannot be read. Raises InvalidRequestError.
    """
    if policy.allow_python:
        return
    for directory in directories:
        files = {path.name for path in directory.iterdir()}
        code = _code(message, files)
        if code is not None and (own is None or code != _code(own, files)):
            raise InvalidRequestError(
                f"the load request's configuration runs {_shown(code)} as python code, which the repository's own "
                f"configuration of '{message.name}' does not: expected the same backend and default_model_filename as there. "
                "Change config.pbtxt, ask for credentials on every port (docs/security.md), or start the server with "
                "'--allow-python-override=true'"
            )


def _shown(name: str) -> str:
    return ascii(name[:128])


def _code(message: model_config_pb2.ModelConfig, files: Collection[str]) -> str | None:
    """The file that a backend would run as code; None where no such backend has a part in the model."""
    whole = model_config_pb2.ModelConfig()
    whole.CopyFrom(message)
    infer_backend(whole, files, BACKENDS)
    for name in (whole.backend, whole.parameters[_FALLBACK].string_value):
        known = BACKENDS.get(name)
        if known is not None and known.runs_code:
            return whole.default_model_filename or known.model_file
    return None
