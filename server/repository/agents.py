# SPDX-License-Identifier: Apache-2.0
"""model_repository_agents of a configuration. Only `checksum` is supported; it works like Triton's checksum_repository_agent.

::

    model_repository_agents { agents [ { name: "checksum"
      parameters { key: "MD5:1/model.onnx" value: "d726e132f91f16ebee703d96f6f73cb1" } } ] }

Files are hashed once for each load, before anything of the model is used. After the load, they are checked for changes.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tritonclient.grpc import model_config_pb2

from hypersonic.server.core.links import Links
from hypersonic.server.errors import ModelConfigError, escaped

_LOG = logging.getLogger(__name__)
_CHECKSUM = "checksum"
_SHOWN_CHARS = 256
_shown = partial(escaped, most_chars=_SHOWN_CHARS)


class Hashed(NamedTuple):
    """A file whose checksum was correct.

    Attributes:
        name: below the model's directory.
        state: device, inode, size, mtime and ctime, by which a later change is detected.
    """

    path: Path
    name: str
    state: tuple[int, ...]


def run_agents(message: model_config_pb2.ModelConfig, model: Path, links: Links) -> tuple[Hashed, ...]:
    """Run the agents of a configuration, and log the ones that this server does not have.

    Returns the files that were hashed.

    Args:
        model: the model's directory.

    Raises:
        ModelConfigError: With Triton's texts, for a file that is missing or has another checksum.
    """
    agents = message.model_repository_agents.agents
    unknown = dict.fromkeys(agent.name for agent in agents if agent.name != _CHECKSUM)
    if unknown:
        _LOG.warning(
            "'%s' asks for the repository agent %s, which this server does not have: it is not run, and the model is loaded "
            "from its directory unchanged. Supported agents: '%s'",
            message.name,
            ", ".join(f"'{name}'" for name in unknown)[:_SHOWN_CHARS],
            _CHECKSUM,
        )
    expected = {key: value for agent in agents if agent.name == _CHECKSUM for key, value in agent.parameters.items()}
    digests: dict[Path, tuple[str, tuple[int, ...]]] = {}
    return tuple(_checked(key, value, model, links, digests) for key, value in expected.items())


def _checked(key: str, expected: str, model: Path, links: Links, digests: dict[Path, tuple[str, tuple[int, ...]]]) -> Hashed:
    algorithm, colon, name = key.partition(":")
    if not colon or not name:
        raise ModelConfigError(f"failed to parse key: {_shown(key)}, expected MD5:<file, relative to the model's directory>")
    if algorithm.lower() != "md5":
        raise ModelConfigError(f"Unsupported checksum algorithm: {_shown(algorithm)}, expected MD5")
    path = model / name.lstrip("/")
    try:
        resolved = links.follow(path, model, _shown(name))
        if resolved not in digests:
            digests[resolved] = _digest(path, model, links)
    except OSError as error:
        raise ModelConfigError(f"failed to open text file for read {_shown(name)}: {error.strerror}") from error
    got, state = digests[resolved]
    if got != expected.lower():
        raise ModelConfigError(
            f"Mismatched MD5 hash for file {_shown(name)}, expect: {_shown(expected)}, got: {got}: the file is not the one the "
            "configuration was written for; copy it again, or correct the checksum"
        )
    return Hashed(path, name, state)


def _digest(path: Path, model: Path, links: Links) -> tuple[str, tuple[int, ...]]:
    with links.opened(path, model, path.name) as file:
        state = _state(os.fstat(file.fileno()))
        return hashlib.file_digest(file, partial(hashlib.md5, usedforsecurity=False)).hexdigest(), state


def _state(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def check_unchanged(hashed: Sequence[Hashed]) -> None:
    """Check, once the model is loaded, that the hashed files have not changed. Raises ModelConfigError."""
    for file in hashed:
        try:
            same = _state(file.path.stat()) == file.state
        except OSError:
            same = False
        if not same:
            raise ModelConfigError(
                f"file {_shown(file.name)} was changed between its checksum and its use: load the model again"
            )
