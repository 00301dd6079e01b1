# SPDX-License-Identifier: Apache-2.0
"""Caches of a test's own, in which no model is built yet."""

from __future__ import annotations

from pathlib import Path

from hypersonic.hls.cache import cache_directory

#: what is made of the tools alone, whatever the model, and takes seconds: Verilator's runtime, and precompiled headers
_OF_TOOLS = ("runtime", "verilated_headers", "csim_headers", "xrt_emu", "yowasp", "hgq")


def make_cold_cache(directory: Path) -> Path:
    """Make `directory` a cache that holds what the usual cache has of the tools, and no model; return it.

    What a build adds of the tools goes into the usual cache too.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for kind in _OF_TOOLS:
        (cache_directory() / kind).mkdir(parents=True, exist_ok=True)
        (directory / kind).symlink_to(cache_directory() / kind, target_is_directory=True)
    return directory
