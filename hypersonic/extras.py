# SPDX-License-Identifier: Apache-2.0
"""The extras of pyproject.toml by the modules that they install, for messages about a module that is missing."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from hypersonic.installing import pip_install

#: extra -> the modules that it adds to the base install. `columnar` installs yaml too, but has messages of its own
MODULES = {
    "server": ("grpc_health", "h11", "starlette", "uvicorn"),
    "build": (
        "da4ml", "h5py", "hls4ml", "keras", "matplotlib", "onnx", "qkeras", "qonnx", "scipy", "tensorflow", "tf_keras", "yaml",
    ),
    "triton": ("nlohmann_json",),
    "columnar": ("awkward", "pyarrow", "uproot"),
    "onnxruntime": ("onnxruntime",),
    "jwt": ("jwt",),
    "trace": ("opentelemetry",),
}  # fmt: skip


#: the first Python for which TensorFlow, and so the extra `build`, has no wheel
_TOO_NEW = (3, 14)


class MissingExtraError(RuntimeError):
    """A module of an extra is not installed. The message names both, and the command that installs the extra."""


def explain_missing(module: str) -> str | None:
    """Return the message for a module that is not installed; None if it does not belong to an extra.

    Args:
        module: its dotted name, or that of a package whose version was asked for, such as tensorflow-cpu.
    """
    top = module.partition(".")[0]
    for extra, modules in MODULES.items():
        if top.replace("-", "_").removesuffix("_cpu") in modules:
            if extra == "build" and sys.version_info[:2] >= _TOO_NEW:
                return _too_new(top)
            return f"this command needs {top}, which is not installed: {pip_install(extra)}"
    return None


def _too_new(module: str) -> str:
    own = ".".join(map(str, sys.version_info[:2]))
    return (
        f"this command needs {module}, but TensorFlow has no wheel for Python {own}: make an environment of Python 3.11, 3.12 "
        f"or 3.13, and there {pip_install('build')}"
    )


def require(*modules: str) -> None:
    """Raise MissingExtraError for the first module that is not installed. For work in a child process, which imports them."""
    for module in modules:
        if find_spec(module) is None and (text := explain_missing(module)):
            raise MissingExtraError(text)
