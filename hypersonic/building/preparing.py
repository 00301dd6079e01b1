# SPDX-License-Identifier: Apache-2.0
"""Compiles the parts of a simulator that do not depend on the model, while the model is converted. It runs in a separate
process, which can be stopped::

    python -m hypersonic.building.preparing TARGET

A conversion uses one processor, and loads TensorFlow first. With empty caches, the preparation takes half a minute on another.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from hypersonic.firmware.target import Target
from hypersonic.hls import verilator
from hypersonic.hls.child import python_argv, python_environment
from hypersonic.host.library import OVERRIDE, library_path
from hypersonic.sim.card.library import is_compiled


@contextmanager
def prepared(target: Target) -> Iterator[None]:
    """Prepare for a build while the body runs. It does not fail: what could not be compiled is compiled where it is needed.

    Code that needs a file which is still being compiled waits for it (hls/cache.py). If the build ends with an error, the
    preparation is stopped.
    """
    if not target.emulated or is_prepared(target):
        yield
        return
    argv = python_argv("-m", "hypersonic.building.preparing", target)
    with subprocess.Popen(
        argv, env=python_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield
        except BaseException:
            process.terminate()
            raise


def is_prepared(target: Target) -> bool:
    """Return whether the cache has everything that prepare() compiles for an emulated target."""
    has_library = OVERRIDE in os.environ or is_compiled()
    return has_library and (target is not Target.HW_EMU or verilator.is_prepared())


def prepare(target: Target) -> None:
    """Compile the emulated card, and for hw_emu first what every Verilated library is built with. Raises ToolError."""
    if target is Target.HW_EMU:
        verilator.prepare()
    library_path(target)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that unfinished files are removed
    prepare(Target(sys.argv[1]))
