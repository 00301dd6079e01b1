# SPDX-License-Identifier: Apache-2.0
"""The programs that the server is compared with or called by: the real tritonserver, perf_analyzer, coffea, client libraries."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from hypersonic.hls.cache import cached
from tests.support import environments
from tests.support.environments import NUMPY_1, PYTHONS, Program, interpreter, site_packages

HERE = Path(__file__).parent
#: with numpy 2, the models of tritonserver's python backend take and give wrong bytes; PyTriton pins numpy 1
_NEED_NUMPY_1 = ("pytriton", "tritonserver")


def environment(name: str) -> Path:
    """Return a virtual environment with what `<name>.txt` of this folder pins and nothing else.

    Skips the test where it cannot be had, as tests/support/environments.py says.
    """
    return environments.environment(HERE / f"{name}.txt", NUMPY_1 if name in _NEED_NUMPY_1 else PYTHONS)


def tritonserver() -> Program:
    """The real server, 2.51, with its python backend."""
    directory, python = environment("tritonserver"), interpreter(NUMPY_1)
    site = site_packages(directory)
    wheel = site / "pytriton" / "tritonserver"
    backends = cached(
        "reference-backends", [HERE / "tritonserver.txt", python.version], lambda d: _backends(wheel, python.version, d)
    )
    libraries = [str(site / "nvidia_pytriton.libs"), python.libraries]
    # the models' interpreter finds its packages beside the first python3 on PATH; it reads no PYTHONPATH, and with numpy 2 it
    # takes and gives wrong bytes
    path = os.pathsep.join([str(directory / "bin"), os.environ.get("PATH", os.defpath)])
    env = {"LD_LIBRARY_PATH": os.pathsep.join(libraries), "PATH": path}
    return Program((str(wheel / "bin" / "tritonserver"), f"--backend-directory={backends}"), env)


def _backends(wheel: Path, version: str, directory: Path) -> None:
    """The wheel keeps the stub apart from its backend; the server wants it beside the library."""
    python = directory / "python"
    python.mkdir()
    stub = wheel / "python_backend_stubs" / version / "triton_python_backend_stub"
    for file in (*(wheel / "backends" / "python").glob("*.*"), stub):
        shutil.copy2(file, python / file.name)


def perf_analyzer() -> Program:
    """perf_analyzer 2.51 of tritonclient's wheel; libb64 and libcudart come from tritonserver's."""
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
