# SPDX-License-Identifier: Apache-2.0
"""The names of models in options that have a value for each of several models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hypersonic.building.errors import BuildError
from hypersonic.hls.near import did_you_mean


def model_name(model: str) -> str:
    """The name of a model in --units and --rates: the zoo name, or the file's name without its suffix."""
    return Path(model.partition(":")[0]).stem


def check_names(option: str, given: Mapping[str, object], names: Sequence[str]) -> None:
    """Raise BuildError if the option names a model that is not built."""
    for name in given:
        if name not in names:
            hint = did_you_mean(name, names)
            raise BuildError(f"{option} names {name!r}, expected one of the models {', '.join(names)}{hint}")
