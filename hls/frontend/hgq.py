# SPDX-License-Identifier: Apache-2.0
"""The environment that converts models of HGQ2: this one, with the cached HGQ2 first on PYTHONPATH.

HGQ2's wheel has a package `qkeras` of its own, which would replace QKeras if both were installed in one environment. So HGQ2
is installed into a directory of the cache, and only the processes that load such a model have it on PYTHONPATH. `make dev-hgq`
installs it in advance. This prints the directory, and installs it first if it is not there::

    python -m hypersonic.hls.frontend.hgq
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from hypersonic.hls.bounded import tool
from hypersonic.hls.cache import cached
from hypersonic.hls.child import PROGRESS, keras_2_environment, python_argv, python_environment
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.saved import config_text

#: the version that is installed, as pip's --require-hashes wants it
LOCKED = "hgq2==0.2.0 --hash=sha256:c47086535b2bae33bdd186590733f44cebd7a0160029cab2b1d3eb05cb8c1164"

#: the most bytes of a .keras file's config.json that are searched
_MAX_CONFIG = 64 << 20


def uses_hgq(file: Path) -> bool:
    """Return whether a .keras or .h5 file has layers of HGQ2. False for a file that cannot be read: loading it says why."""
    text = config_text(file, _MAX_CONFIG) if file.suffix in (".keras", ".h5") else b""
    return b'"hgq.' in text or b'"hgq>' in text


def environment_of(file: Path, progress: Callable[[str], None] = lambda _: None) -> dict[str, str]:
    """Return the environment of a process that loads this model file.

    Args:
        progress: called with one line when HGQ2 has to be installed.

    Raises:
        ConversionError: If that fails.
    """
    return environment(progress) if uses_hgq(file) else keras_2_environment()


def environment(progress: Callable[[str], None] = lambda _: None) -> dict[str, str]:
    """Return the environment of a process that imports HGQ2. See environment_of."""
    entries = [str(installed(progress)), *filter(None, python_environment()["PYTHONPATH"].split(os.pathsep))]
    options = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    return {**os.environ, "PYTHONPATH": os.pathsep.join(entries), **options}


def installed(progress: Callable[[str], None] = lambda _: None) -> Path:
    """Return the directory of the cache that holds HGQ2. It is installed there first if it is not. Raises ConversionError."""

    def install(directory: Path) -> None:
        progress(f"installing {LOCKED.partition(' ')[0]} into the cache, once")
        requirements = directory / "requirements.txt"
        requirements.write_text(f"{LOCKED}\n")
        options = ["install", "--quiet", "--no-deps", "--require-hashes", "--target", str(directory), "-r", str(requirements)]
        done = tool.run([*_installer(), *options], "the installation of HGQ2", apart=True)
        if done.code:
            lines = [line.strip() for line in done.errors.splitlines() if line.strip()]
            raise ConversionError(
                f"the model needs HGQ2, which could not be installed: {lines[-1] if lines else 'no output'}; run make dev-hgq "
                "where the package index can be reached, or copy the cache's folder hgq from there"
            )

    return cached("hgq", [LOCKED, sys.version.partition(" ")[0]], install)


def _installer() -> list[str]:
    """pip of this environment, or uv."""
    if find_spec("pip") is not None:
        return python_argv("-m", "pip", "--disable-pip-version-check")
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.is_file() else shutil.which("uv")
    if uv is None:
        raise ConversionError("the model needs HGQ2, and neither pip nor uv is there to install it; install one of them")
    return [uv, "pip"]


if __name__ == "__main__":
    try:
        print(installed(lambda line: print(f"{PROGRESS}{line}", file=sys.stderr)))  # noqa: T201 - a command
    except ConversionError as failure:
        sys.exit(f"{PROGRESS}error: {failure}")
