# SPDX-License-Identifier: Apache-2.0
"""Files that a model configuration names: labels, warm-up samples, initial states. They are read only inside the model's
directory.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path, PurePosixPath

from hypersonic.server.core.links import Links
from hypersonic.server.errors import ModelConfigError, ModelLoadError

#: the directory of warm-up samples, below the model's directory
WARMUP_DIRECTORY = "warmup"


def check_inside(filename: str, what: str, model: str) -> None:
    """Raise ModelConfigError for a file name that leads out of the directory it is relative to."""
    path = PurePosixPath(filename)
    if path.is_absolute() or ".." in path.parts or "\0" in filename:
        raise ModelConfigError(f"{what} leads out of its directory for {model}, expected a relative file name without '..'")


def read_regular(path: Path, limit_bytes: int) -> bytes:
    """Return a file's bytes, at most `limit_bytes` + 1 of them.

    Raises OSError if the file cannot be read or is not a regular file: a FIFO would block its reader, and a device may be
    endless.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(limit_bytes + 1)
    finally:
        os.close(descriptor)


def read_model_file(model: Path, name: str, limit_bytes: int, links: Links) -> bytes:
    """Return the bytes of a file below a model's directory, for example "warmup/sample" or a label file.

    Raises ModelLoadError for a file that does not exist, has more than `limit_bytes`, or is a link that leads where it may not.
    """
    try:
        data = links.read(model / name, model, f"{model.name}/{name}", limit_bytes)
    except OSError as error:
        raise ModelLoadError(f"failed to open text file for read {model.name}/{name}: {error.strerror}") from error
    if len(data) > limit_bytes:
        raise ModelLoadError(f"{model.name}/{name} has more than {limit_bytes} bytes, expected at most that many")
    return data
