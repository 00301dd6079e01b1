# SPDX-License-Identifier: Apache-2.0
"""Decides which models `hypersonic build` builds when it gets several models, or --all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypersonic.building.errors import BuildError
from hypersonic.building.host_models import find_host_model
from hypersonic.building.names import check_names, model_name
from hypersonic.hls.frontend.description import read_zoo_yaml, zoo_models


def check_models(
    models: Sequence[str], everything: bool, name: str, together: str, units: Mapping[str, int], rates: Mapping[str, float]
) -> None:
    """Raise BuildError for options that exclude each other.

    Args:
        everything: --all; the others are the options of that name.
    """
    if everything == bool(models):
        raise BuildError("expected names or files of models, or --all for those of the zoo" + "; got both" * everything)
    names = zoo_models() if everything else [model_name(model) for model in models]
    if name and (len(names) > 1 or together):
        raise BuildError(f"--name {name} is for one model: got {', '.join(names)}; each has the name in its YAML")
    if rates and not together:
        raise BuildError(f"--rates shares a card between {', '.join(names)}: name their xclbin with --together")
    if twice := sorted({each for each in names if names.count(each) > 1}):
        raise BuildError(f"models are {', '.join(names)}, expected each once: {', '.join(twice)} is there twice")
    check_names("--units", units, names)


def split_zoo(target: str) -> tuple[list[str], list[str]]:
    """Return the zoo models that have a kernel, and those that run on the host, which only emulation builds include."""
    on_host = [name for name in zoo_models() if find_host_model(name, read_zoo_yaml(name))]
    return [name for name in zoo_models() if name not in on_host], on_host if target != "hw" else []
