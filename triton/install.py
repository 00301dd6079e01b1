# SPDX-License-Identifier: Apache-2.0
"""Installation of the backend where tritonserver looks for it: <backend directory>/fpga/libtriton_fpga.so."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from hypersonic.triton.compile import BACKEND, LIBRARY_NAME, backend_library
from hypersonic.triton.errors import BackendInstallError


def install(directory: Path, progress: Callable[[str], None] = lambda _: None) -> Path:
    """Compile the backend if necessary, and put it into a backend directory. Returns the path of the library.

    A server that has the old library loaded keeps it: the file is replaced, not overwritten. Raises BackendInstallError, and as
    backend_library().
    """
    library = backend_library(progress=progress)
    target = directory / BACKEND / LIBRARY_NAME
    scratch = target.with_name(f".{LIBRARY_NAME}.{os.getpid()}")
    try:
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(library, scratch)
        scratch.chmod(0o755)
        scratch.replace(target)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise BackendInstallError(
            f"{target} cannot be written ({error.strerror}): run the command as a user who may write to {directory}, or give "
            "another --backend-directory"
        ) from error
    return target
