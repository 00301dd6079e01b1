# SPDX-License-Identifier: Apache-2.0
"""File names inside a model configuration: labels, warm-up samples, initial states. They stay inside the model's directory."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from hypersonic.server.errors import ModelConfigError, ModelLoadError

#: where each kind of file lives, below the model's directory
WARMUP_DIRECTORY, INITIAL_STATE_DIRECTORY = "warmup", "initial_state"


def check_inside(filename: str, what: str, model: str) -> None:
    """Raises ModelConfigError for a file name that leads out of the directory it is relative to."""
    path = PurePosixPath(filename)
    if path.is_absolute() or ".." in path.parts or "\0" in filename:
        raise ModelConfigError(f"{what} leads out of its directory for {model}, expected a relative file name without '..'")


def read_model_file(model: Path, name: str, limit_bytes: int) -> bytes:
    """A file below a model's directory, e.g. "warmup/sample" or a label file.

    Raises ModelLoadError for one that is not there, holds more than `limit_bytes`, or is a link that leads out of the model.
    """
    path = (model / name).resolve()
    if not path.is_relative_to(model.resolve()):
        raise ModelLoadError(f"{model.name}/{name} leads out of the model's directory")
    try:
        with path.open("rb") as file:
            data = file.read(limit_bytes + 1)
    except OSError as error:
        raise ModelLoadError(f"failed to open text file for read {model.name}/{name}: {error.strerror}") from error
    if len(data) > limit_bytes:
        raise ModelLoadError(f"{model.name}/{name} holds more than the {limit_bytes} bytes expected")
    return data
