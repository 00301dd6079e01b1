# SPDX-License-Identifier: Apache-2.0
"""Every case that both servers are asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tests.reference import batching
from tests.reference.cases import admin, control, http, infer, model, region, settings, statistics
from tests.reference.cases.infer import Case


class Module(Protocol):
    """A module of cases that need nothing but a server's address."""

    def cases(self) -> Mapping[str, Case]: ...


MODULES: dict[str, Module] = {
    "infer": infer,
    "admin": admin,
    "model": model,
    "http": http,
    "region": region,
    "settings": settings,
}


def names() -> set[str]:
    """Return the name of every case, as the tables of differences give it."""
    of_modules = {name for module in MODULES.values() for name in module.cases()}
    return {*of_modules, *batching.cases(), *statistics.cases(), *(f"control: {name}" for name in control.cases())}
