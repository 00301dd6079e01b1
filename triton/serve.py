# SPDX-License-Identifier: Apache-2.0
"""The command line with which tritonserver serves a repository of this project."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from hypersonic.firmware.target import Target
from hypersonic.hls.cache import cached
from hypersonic.host.library import library_path
from hypersonic.triton.compile import BACKEND, LIBRARY_NAME, backend_library
from hypersonic.triton.program import TritonServer

_MANIFESTS = "*/*/manifest.json"
#: the most bytes of a manifest that are read to find its target
_MAX_BYTES = 1 << 20


def arguments(
    server: TritonServer, repository: Path, more: Sequence[str] = (), progress: Callable[[str], None] = lambda _: None
) -> list[str]:
    """Return tritonserver's command line.

    The backend is compiled if necessary, and the emulated card's library if a model needs it.

    Args:
        more: further options of tritonserver.

    Raises:
        BackendCompileError: As backend_library().
        ToolError: As backend_library().
        LibraryNotFoundError: When the emulated card's library cannot be compiled.
    """
    backends = backend_directory(server, backend_library(progress=progress))
    argv = [str(server.path), f"--model-repository={repository}", f"--backend-directory={backends}"]
    if has_emulated(repository):
        library = library_path(Target.HW_EMU, progress)
        argv += ["--backend-config=fpga,emulation=true", f"--backend-config=fpga,emulation-library={library}"]
    return [*argv, *more]


def backend_directory(server: TritonServer, library: Path) -> Path:
    """Return a directory with links to the library and to the backends that come with the server."""
    others = sorted(path for path in server.backends.glob("*") if path.is_dir() and path.name != BACKEND)

    def link(directory: Path) -> None:
        (directory / BACKEND).mkdir()
        (directory / BACKEND / LIBRARY_NAME).symlink_to(library)
        for other in others:
            (directory / other.name).symlink_to(other)

    return cached("triton_backends", [str(library), *map(str, others)], link)


def has_emulated(repository: Path) -> bool:
    """Return whether a version in the repository is for an emulated card."""
    return any(_target(manifest) not in ("", Target.HW) for manifest in repository.glob(_MANIFESTS))


def _target(manifest: Path) -> str:
    """Return a manifest's target, "" if it has none; the backend refuses a manifest that is damaged."""
    try:
        with manifest.open("rb") as file:
            fields = json.loads(file.read(_MAX_BYTES))
        return str(fields["target"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
