# SPDX-License-Identifier: Apache-2.0
"""Finds NVIDIA's tritonserver: on PATH, in its container's place, or in the wheel nvidia-pytriton, which is then downloaded."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hypersonic.hls.cache import cached
from hypersonic.triton.errors import TritonServerNotFoundError

NAME = "tritonserver"
#: where NVIDIA's container images have the program
CONTAINER = Path("/opt/tritonserver/bin") / NAME
#: the wheel by version and hash
WHEEL = Path(__file__).with_name("tritonserver.txt")
_ELF = b"\x7fELF"


@dataclass(frozen=True)
class TritonServer:
    """A tritonserver program.

    Attributes:
        env: variables that it needs.
    """

    path: Path
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def backends(self) -> Path:
        """The directory of the backends that come with it."""
        return self.path.resolve().parents[1] / "backends"


def find_tritonserver(given: Path | None = None, progress: Callable[[str], None] = lambda _: None) -> TritonServer:
    """Return the program.

    Args:
        given: its path, None = search.
        progress: receives one line before a download.

    Raises:
        TritonServerNotFoundError: If there is none.
    """
    if given is not None:
        if not _is_program(given):
            raise TritonServerNotFoundError(f"{given} is not a program: expected NVIDIA's tritonserver, an ELF file")
        return TritonServer(given)
    for path in (*_on_path(), CONTAINER):
        if _is_program(path):
            return TritonServer(path)
    return _from_wheel(progress)


def _on_path() -> Iterator[Path]:
    """Yield the files called tritonserver on PATH. Some may be scripts that start hypersonic's own server (docs/sites.md)."""
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        yield Path(directory or ".") / NAME


def _is_program(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_ELF)) == _ELF and os.access(path, os.X_OK)
    except OSError:
        return False


def _from_wheel(progress: Callable[[str], None]) -> TritonServer:
    directory = cached("tritonserver", [WHEEL], lambda scratch: _download(scratch, progress))
    path = directory / "pytriton" / NAME / "bin" / NAME
    libraries = [str(directory / "nvidia_pytriton.libs"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return TritonServer(path, {"LD_LIBRARY_PATH": os.pathsep.join(libraries)})


def _download(directory: Path, progress: Callable[[str], None]) -> None:
    progress("downloading tritonserver, once (the wheel nvidia-pytriton, 60 MB)")
    wanted = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--target", str(directory), "-r", str(WHEEL)]
    done = subprocess.run([*_installer(), "--quiet", *wanted], capture_output=True, text=True, check=False)
    if done.returncode:
        raise TritonServerNotFoundError(
            f"no tritonserver is on PATH, and the wheel nvidia-pytriton cannot be downloaded: {done.stderr.strip()[-400:]}; "
            "install tritonserver, or give its path as --tritonserver"
        )


def _installer() -> list[str]:
    uv = Path(sys.executable).with_name("uv")
    found = str(uv) if uv.is_file() else shutil.which("uv")
    return [found, "pip", "install", "--python", sys.executable] if found else [sys.executable, "-m", "pip", "install"]
