# SPDX-License-Identifier: Apache-2.0
"""The parameters of RepositoryModelLoad: a configuration and files that replace those of the repository.

A file `file:<version>/<name>` is written, under exactly that name, into a new directory that no other user can read, and
nowhere else.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from hypersonic.server.backends.known import BACKENDS
from hypersonic.server.core.inference.parameters import LoadParameter
from hypersonic.server.errors import InvalidRequestError, ModelLoadError, escaped
from hypersonic.server.repository.layout import is_plain_name, is_version

_PREFIX = "file:"
_MAX_FILES = 256


class OverrideFile(NamedTuple):
    """A file of a load request, whose names are already checked.

    Attributes:
        version: the name of a directory.
        name: of a file in it.
    """

    version: str
    name: str


@dataclass(frozen=True)
class Override:
    """The configuration and files of a load request.

    Attributes:
        config: JSON.
        files: name -> content; () = the repository's are used.
    """

    config: str = ""
    files: Mapping[OverrideFile, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class OverridePolicy:
    """Limits on the contents of load requests.

    Attributes:
        limit_bytes: of all files of one request together.
        allow_xclbin: clients may upload xclbins.
        allow_python: clients may upload, or choose, code that runs as the server's user.
    """

    limit_bytes: int = 1 << 30
    allow_xclbin: bool = False
    allow_python: bool = False


def read_override(parameters: Mapping[str, LoadParameter], policy: OverridePolicy) -> Override | None:
    """Read the parameters of a load request. Returns None if there are none.

    Raises InvalidRequestError (INVALID_ARGUMENT, 400), and ModelLoadError (INTERNAL, 500) for a path that a file may not have.
    """
    config: str | None = None
    files: dict[OverrideFile, bytes] = {}
    for key, value in parameters.items():
        if key == "config":
            config = _config(value)
        elif key.startswith(_PREFIX):
            files[_file_of(key)] = _bytes_of(key, value)
        else:
            raise InvalidRequestError(f"unrecognized load parameter '{escaped(key)}'.")
    _check_files(files, policy)
    if files and config is None:
        raise InvalidRequestError("Load parameter 'config' must be specified for model file override")
    return None if config is None else Override(config, files)


def _config(value: LoadParameter) -> str:
    if not isinstance(value, str):
        raise InvalidRequestError("invalid value type for load parameter 'config', expected string_param.")
    return value


def _bytes_of(key: str, value: LoadParameter) -> bytes:
    if not isinstance(value, bytes):
        raise InvalidRequestError(f"invalid value type for load parameter '{key}', expected bytes_param.")
    return value


def _file_of(key: str) -> OverrideFile:
    version, _, name = key.removeprefix(_PREFIX).partition("/")
    if not is_version(version) or not is_plain_name(name):
        raise ModelLoadError(
            f"Invalid file path: invalid load parameter '{escaped(key)}', expected 'file:<version>/<file name>' with a version "
            "from 1 on and a name of at most 128 letters, digits, '_', '.' and '-', without directories"
        )
    return OverrideFile(version, name)


def _check_files(files: Mapping[OverrideFile, bytes], policy: OverridePolicy) -> None:
    size_bytes = sum(len(data) for data in files.values())
    if len(files) > _MAX_FILES or size_bytes > policy.limit_bytes:
        raise InvalidRequestError(
            f"the load request has {len(files)} files of {size_bytes} bytes together, expected at most {_MAX_FILES} files "
            f"of {policy.limit_bytes} bytes together (--model-load-override-limit-bytes)"
        )
    for file in files:
        for known in BACKENDS.values():
            if known.on_card and file.name.lower().endswith(known.suffix):
                check_backend(known.name, policy)


def check_backend(backend: str, policy: OverridePolicy) -> None:
    """Raise InvalidRequestError if files for this backend are not accepted over the network."""
    known = BACKENDS.get(backend)
    if known is None:
        return
    if known.on_card and not policy.allow_xclbin:
        raise InvalidRequestError(
            "files for a card are not accepted over the network: an xclbin drives the card's DMA. Put it into the model "
            "repository, or start the server with '--allow-xclbin-override=true'"
        )
    if known.runs_code and not policy.allow_python:
        raise InvalidRequestError(
            "python code is not accepted over the network from callers without credentials: it runs as the server's user. Put "
            "model.py into the model repository, ask for credentials on every port (docs/security.md), or start the server "
            "with '--allow-python-override=true'"
        )


def stage(model: str, override: Override) -> Path:
    """Write the files to <model>/<version>/<file> in a new private directory, which the caller has to remove.

    Returns the directory. Raises ModelLoadError, for example when the disk is full.
    """
    scratch = Path(tempfile.mkdtemp(prefix="hypersonic-model-"))
    try:
        for file, data in override.files.items():
            directory = scratch / model / file.version
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write_new(directory / file.name, data)
    except OSError as error:
        shutil.rmtree(scratch, ignore_errors=True)
        raise ModelLoadError(f"failed to store the load request's files: {error.strerror}") from error
    return scratch


def _write_new(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def discard(scratch: Path | None) -> None:
    """Remove a directory that stage() made. Does nothing for None."""
    if scratch is not None:
        shutil.rmtree(scratch, ignore_errors=True)
