# SPDX-License-Identifier: Apache-2.0
"""Checks whether a load request may run its files: code of python models runs as the server's user, and an xclbin drives a
card's DMA.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from tritonclient.grpc import model_config_pb2

from hypersonic.server.backends.known import BACKENDS
from hypersonic.server.core.config.read import infer_backend
from hypersonic.server.errors import InvalidRequestError
from hypersonic.server.repository.override import OverridePolicy, check_backend

_FALLBACK = "fallback_backend"


def check_files(message: model_config_pb2.ModelConfig, files: Collection[str], policy: OverridePolicy) -> None:
    """Check a load request that has files: whether files for the backends that `message` uses are accepted.

    Raises InvalidRequestError. Fills in the backend of `message`.

    Args:
        files: their names.
    """
    infer_backend(message, files, BACKENDS)
    for backend in (message.backend, *(parameter.string_value for parameter in message.parameters.values())):
        check_backend(backend, policy)


def check_alone(
    message: model_config_pb2.ModelConfig,
    own: model_config_pb2.ModelConfig | None,
    directories: Iterable[Path],
    policy: OverridePolicy,
) -> None:
    """Check a load request that has only a configuration: it may not make the server run a file of the repository as code.

    Raises InvalidRequestError.

    Args:
        own: the repository's configuration, None = it cannot be read.
        directories: of the versions.
    """
    if policy.allow_python:
        return
    for directory in directories:
        files = {path.name for path in directory.iterdir()}
        code = _code(message, files)
        if code is not None and (own is None or code != _code(own, files)):
            raise InvalidRequestError(
                f"the load request's configuration runs {_shown(code)} as python code, which the repository's own "
                f"configuration of '{message.name}' does not: expected the backend and default_model_filename of that one. "
                "Change config.pbtxt, ask for credentials on every port (docs/security.md), or start the server with "
                "'--allow-python-override=true'"
            )


def _shown(name: str) -> str:
    return ascii(name[:128])


def _code(message: model_config_pb2.ModelConfig, files: Collection[str]) -> str | None:
    """Return the file that a backend of the model, or its fallback backend, would run as code; None if neither runs code."""
    whole = model_config_pb2.ModelConfig()
    whole.CopyFrom(message)
    infer_backend(whole, files, BACKENDS)
    # a fallback backend reads the file of its own name, whatever default_model_filename says
    for name, file in ((whole.backend, whole.default_model_filename), (whole.parameters[_FALLBACK].string_value, "")):
        known = BACKENDS.get(name)
        if known is not None and known.runs_code:
            return file or known.model_file
    return None
