# SPDX-License-Identifier: Apache-2.0
"""Says which Keras has saved a file, and which numbers its model computes with."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

#: the most bytes of a .keras file's metadata.json that are read
_MAX_METADATA = 1 << 20
#: and of its config.json
_MAX_CONFIG = 1 << 28


def is_keras_3(file: Path) -> bool:
    """Return whether Keras 3 has saved this .keras or .h5 file. False for a file that cannot be read: loading it says why."""
    try:
        return saved_by(file).startswith("3")
    except (OSError, ValueError, KeyError, AttributeError, zipfile.BadZipFile):
        return False


def saved_by(file: Path) -> str:
    """Return the version of Keras that saved the file. Raises KeyError, ValueError, OSError or BadZipFile if it is damaged."""
    if file.suffix == ".keras":
        with zipfile.ZipFile(file) as archive, archive.open("metadata.json") as metadata:
            return str(json.loads(metadata.read(_MAX_METADATA))["keras_version"])
    import h5py

    with h5py.File(file) as content:
        return str(content.attrs["keras_version"])


#: dtype policies whose layers compute the same with float32, except for its rounding
FLOATING = ("mixed_float16", "mixed_bfloat16", "float16", "bfloat16", "float64")


def dtype_policy(config: Any) -> str:
    """Return the first of FLOATING that a layer of a model's configuration has, at any depth; "" if none has one."""
    if isinstance(config, list | tuple):
        return next(filter(None, map(dtype_policy, config)), "")
    if not isinstance(config, dict):
        return ""
    policy = config.get("dtype")
    name = str((policy.get("config") or {}).get("name", "")) if isinstance(policy, dict) else str(policy)
    return name if name in FLOATING else dtype_policy(list(config.values()))


def model_config(file: Path) -> dict[str, Any]:
    """Return the configuration of the model in a .keras or .h5 file; {} if it cannot be read."""
    try:
        return dict(json.loads(config_text(file)))
    except (ValueError, TypeError, RecursionError):
        return {}


def config_text(file: Path, most: int = _MAX_CONFIG) -> bytes:
    """Return the JSON text of that configuration; b"" if it cannot be read.

    Args:
        most: bytes that are read of a .keras file.
    """
    try:
        if file.suffix == ".keras":
            with zipfile.ZipFile(file) as archive, archive.open("config.json") as config:
                return config.read(most)
        import h5py

        with h5py.File(file) as content:
            text = content.attrs["model_config"]
        return text.encode() if isinstance(text, str) else bytes(text)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return b""
