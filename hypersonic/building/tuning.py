# SPDX-License-Identifier: Apache-2.0
"""`hypersonic tune`: searches for types and reuse factors with which a user's model costs least on the card of a platform."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hypersonic.building.fit.card import FitOptions, card_of
from hypersonic.firmware.platform import find_platform
from hypersonic.hls.frontend.hgq import uses_hgq
from hypersonic.hls.tune.describe import check_place
from hypersonic.hls.tune.run import TuneError, TuneOptions, search_types
from hypersonic.hls.tune.search import Tuned


def tune(
    model: Path,
    options: TuneOptions,
    fit: FitOptions,
    output: Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
    *,
    force: bool = False,
) -> Tuned:
    """Search for the card of `fit`, as search_types does, and write the YAML.

    Raises TuneError, DescriptionError, RowsError, ConversionError, PlatformError.

    Args:
        output: the YAML to write; None: beside the model.
        force: replace an existing one.
    """
    place = check_place(model, output, force=force)
    if uses_hgq(model):
        raise TuneError(
            f"{model}: HGQ2 has trained the model's types, so none are left to choose; build it with --fit {fit.card}"
        )
    card = card_of(find_platform(fit.card), fill_percent=fit.fill_percent)
    return search_types(model, place, card, options, progress)
