# SPDX-License-Identifier: Apache-2.0
"""The compiler side: converts a trained model into an HLS project and an RTL core.

overflows(hls_model, rows)          for users of hls4ml: what wraps in each layer of a ModelGraph (csim/overflow)
compare(hls_model, predict, rows)   for users of hls4ml: how far a ModelGraph is from the trained model (plugin/compare.py)
"""

from __future__ import annotations

from importlib import import_module

#: the module of each public name, which is imported when it is first used; __init__.pyi lists the same for type checkers
_MODULES = {"compare": "hypersonic.hls.plugin.compare", "overflows": "hypersonic.hls.csim.overflow.model"}

__all__ = [*_MODULES]  # noqa: PLE0604 - keys, which are strings


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'hypersonic.hls' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
