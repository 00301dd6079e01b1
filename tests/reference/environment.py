# SPDX-License-Identifier: Apache-2.0
"""Programs of others that the server is compared with or called by, each unpacked into a directory of its own and kept in the
cache by the hash of its requirement file: the real tritonserver, perf_analyzer, coffea, client libraries. Nothing of them enters the
project's environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from hypersonic.hls.cache import cached

HERE = Path(__file__).parent
#: python_backend_stubs has one per Python; the one of the Python that runs the tests is taken
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


class UnavailableError(RuntimeError):
    """The package cannot be had here: which, and what the installer said."""


class Program(NamedTuple):
    """A program of another project. argv: its first words; env: added to the caller's environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


def environment(name: str) -> Path:
    """A virtual environment with what `<name>.txt` pins and nothing else. Raises UnavailableError."""
    requirements = HERE / f"{name}.txt"
    return cached("reference", [requirements, PYTHON], lambda directory: _install(requirements, directory))


def _install(requirements: Path, directory: Path) -> None:
    uv = str(Path(sys.executable).with_name("uv"))
    pip = [uv, "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", str(requirements)]
    for argv in ([uv, "venv", "--quiet", "--python", sys.executable, str(directory)], [*pip, "--python", str(directory)]):
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UnavailableError(f"{requirements.name} cannot be installed: {done.stderr.strip()}")


def site_packages(directory: Path) -> Path:
    """Where an environment keeps its packages."""
    return directory / "lib" / f"python{PYTHON}" / "site-packages"


def tritonserver() -> Program:
    """The real server, 2.51, with its python backend. Raises UnavailableError."""
    directory = environment("tritonserver")
    site = site_packages(directory)
    wheel = site / "pytriton" / "tritonserver"
    backends = cached("reference-backends", [HERE / "tritonserver.txt", PYTHON], lambda d: _backends(wheel, d))
    libraries = [str(site / "nvidia_pytriton.libs"), str(sysconfig.get_config_var("LIBDIR"))]
    # the models' interpreter finds its packages beside the first python3 on PATH; it reads no PYTHONPATH, and with numpy 2 it
    # takes and gives wrong bytes
    path = os.pathsep.join([str(directory / "bin"), os.environ.get("PATH", os.defpath)])
    env = {"LD_LIBRARY_PATH": os.pathsep.join(libraries), "PATH": path}
    return Program((str(wheel / "bin" / "tritonserver"), f"--backend-directory={backends}"), env)


def _backends(wheel: Path, directory: Path) -> None:
    """The wheel keeps the stub apart from its backend; the server wants it beside the library."""
    python = directory / "python"
    python.mkdir()
    stub = wheel / "python_backend_stubs" / PYTHON / "triton_python_backend_stub"
    for file in (*(wheel / "backends" / "python").glob("*.*"), stub):
        shutil.copy2(file, python / file.name)


def perf_analyzer() -> Program:
    """perf_analyzer 2.51 of tritonclient's wheel; libb64 and libcudart come from tritonserver's. Raises UnavailableError."""
    libraries = site_packages(environment("tritonserver")) / "nvidia_pytriton.libs"
    parts = [HERE / "tritonserver.txt", HERE / "perf_analyzer.txt"]
    links = cached("reference-libraries", parts, lambda directory: _libraries(libraries, directory))
    argv = (str(environment("perf_analyzer") / "bin" / "perf_analyzer"),)
    return Program(argv, {"LD_LIBRARY_PATH": str(links)})


def _libraries(libraries: Path, directory: Path) -> None:
    """The wheel's libraries have a hash in their names; perf_analyzer looks for the plain ones."""
    for plain, pattern in (("libb64.so.0d", "libb64-*.so.0d"), ("libcudart.so.12", "libcudart-*.so.12*")):
        (file,) = libraries.glob(pattern)
        (directory / plain).symlink_to(file)
