# SPDX-License-Identifier: Apache-2.0
"""Makes the weights of zoo models that are too large to ship. A function that the YAML names writes them, and they are cached.

`network: "module:function"` in the YAML is a function that takes the path of the .h5 to write. It runs in a process of its own,
where TensorFlow's Keras is Keras 2 (hls/zoo/keras_2.py)::

    python -m hypersonic.hls.frontend.zoo_weights MODULE:FUNCTION FILE
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import hypersonic
from hypersonic.hls.cache import cached
from hypersonic.hls.child import keras_2_environment, python_argv, run_child
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.sources import find_modules

_PACKAGE = Path(hypersonic.__file__).parent
_WEIGHTS = "weights.h5"  # in the cache, for every model with the same function


def make_model(described: Path, network: str) -> Path:
    """Return the cached .h5 that `network` ("module:function") writes, with a copy of the YAML `described` beside it.

    The weights are made if they are not in the cache. Their key is the function's code, not the YAML: another precision
    does not need other weights, and models with the same function share them. Raises ConversionError if the function fails or
    writes nothing.
    """
    name = f"{described.stem}.h5"
    tools = [f"{tool} {version(tool)}" for tool in ("tensorflow-cpu", "tf-keras", "qkeras")]
    parts: list[str | bytes | Path] = [network, *codes_of(network), *tools]
    weights = cached("weights", [*parts, _WEIGHTS], lambda scratch: _make(network, scratch / _WEIGHTS, name)) / _WEIGHTS

    def both(scratch: Path) -> None:
        (scratch / described.name).write_bytes(described.read_bytes())
        try:
            os.link(weights, scratch / name)
        except OSError:  # a file system without hard links
            shutil.copyfile(weights, scratch / name)

    return cached("model", [*parts, described], both) / name


def codes_of(reference: str) -> list[str]:
    """Return the hashes of the code of the modules of hls/ that "module:function" may import, its own included.

    Empty for a function outside hls/.
    """
    return [module.code for module in find_modules(_PACKAGE, [reference.partition(":")[0]])]


def _make(network: str, file: Path, name: str) -> None:
    argv = python_argv("-m", __name__, network, str(file))
    done = run_child(argv, keras_2_environment(), f"network {network!r}")
    if done.code or not file.is_file():
        raise ConversionError(
            f"network {network!r} did not write {name}: its process ended with {done.code}, its last line was: "
            f"{done.last}; expected module:function, which takes the path to write"
        )


def main(argv: Sequence[str]) -> None:
    """Call a function with a path.

    An exception ends the process with its traceback.

    Args:
        argv: "module:function" and the path.
    """
    module, _, function = argv[0].partition(":")
    getattr(import_module(module), function)(Path(argv[1]))


if __name__ == "__main__":
    main(sys.argv[1:])
