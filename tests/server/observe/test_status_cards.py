# SPDX-License-Identifier: Apache-2.0
"""The state of a card on the status page."""

from __future__ import annotations

import pytest

from hypersonic.server.observe.status.page import render
from hypersonic.server.observe.status.reader import CardStatus, ServerStatus, Status

SERVER = ServerStatus("server", "1.0", "READY", 1, 0, 0, 0, 0, {}, 0, {}, 0)


@pytest.mark.parametrize(
    ("units", "in_service", "words"), [(2, 2, "IN SERVICE"), (2, 1, "1 OF 2 UNITS LOST"), (2, 0, "LOST"), (0, 0, "FREE")]
)
def test_a_card_is_lost_only_if_units_of_a_model_on_it_are(units: int, in_service: int, words: str) -> None:
    """While a card is loaded for a model that takes turns, no unit is on it."""
    card = CardStatus("u250", "FPGA-1", False, units, in_service, 0.0, 1 << 30, 0, None, None, {}, 1)
    page = render(Status(SERVER, (), (card,), ()))
    assert f">{words}<" in page
    assert page.count("LOST") == ("LOST" in words)
