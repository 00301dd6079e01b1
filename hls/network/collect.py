# SPDX-License-Identifier: Apache-2.0
"""Collects what every module of a package defines."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import ModuleInfo
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


def collect(package: ModuleType, inside: Iterable[ModuleInfo], name: str, kind: type[T]) -> dict[str, T]:
    """Return module name -> its attribute `name`, an instance of `kind`, for every module of a package.

    The caller searches, because a build's key has every module of a package that its importer searches (hls/sources.py).

    Args:
        inside: the modules, as pkgutil.iter_modules(package.__path__) finds them.

    Raises:
        ImportError: If the package has no modules, or one without such an attribute.
    """
    modules = [import_module(f"{package.__name__}.{module.name}") for module in inside]
    if not modules:
        raise ImportError(f"{package.__name__} has no modules, expected at least one with a {name}")
    found = {module.__name__.rpartition(".")[2]: getattr(module, name, None) for module in modules}
    if without := [module for module, value in found.items() if not isinstance(value, kind)]:
        raise ImportError(f"{package.__name__}: {', '.join(without)} has no {name}, expected a {kind.__name__} in every file")
    return {module: value for module, value in found.items() if isinstance(value, kind)}
