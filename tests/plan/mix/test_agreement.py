# SPDX-License-Identifier: Apache-2.0
"""The computed figures of mixed farms against the simulation: rates, times and utilisations within 5 %."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from hypersonic.plan.farm import Farm, Load, Mix, ServerUse, simulate_mix
from hypersonic.plan.mix.analyse import Figures, analyse
from tests.plan.mix.farms import FARMS

pytestmark = [pytest.mark.slow, pytest.mark.whole("plan")]  # half a minute of processor time

LIMIT = 0.05

#: calls that are simulated for each farm, and seconds of farms whose models take turns
CALLS, TURNS_S = 30_000, 1200.0


def simulated(farm: Farm, loads: Sequence[Load], figures: Figures) -> Mix:
    calls = sum(each.events_per_s * len(load.calls) for each, load in zip(figures.loads, loads, strict=True))
    seconds = max(CALLS / calls, 25 * max(each.event_s for each in figures.loads))
    if any(server.turns for server in farm.servers):
        seconds = TURNS_S
    return simulate_mix(farm, loads, seconds=1.25 * seconds, warmup_s=seconds / 4)


def _by_model(uses: Sequence[ServerUse]) -> tuple[list[Mapping[str, float]], list[Mapping[str, float]]]:
    """The shares of busy time of each server, and of the time on a card."""
    return [use.units for use in uses], [use.present for use in uses]


@pytest.mark.parametrize("name", FARMS)
def test_a_farm_is_computed_as_it_is_simulated(name: str) -> None:
    farm, loads = FARMS[name]
    kinds = {server: str(number) for number, server in enumerate(dict.fromkeys(farm.servers))}
    figures = analyse(farm, loads, [kinds[server] for server in farm.servers])
    mix = simulated(farm, loads, figures)
    for computed, found in zip(figures.loads, mix.loads, strict=True):
        assert computed.events_per_s == pytest.approx(found.events_per_s, rel=LIMIT)
        assert computed.event_s == pytest.approx(found.event_s.mean_s, rel=LIMIT)
        assert computed.refused == pytest.approx(found.refused_share, abs=LIMIT)
        for model, call_s in computed.call_s.items():
            assert call_s == pytest.approx(found.model_s[model].mean_s, rel=LIMIT), model
    busy = {part.name: part.busy for part in figures.parts}
    for server, kind in kinds.items():
        uses = [use for use, other in zip(mix.servers, farm.servers, strict=True) if other == server]
        for model in uses[0].units:
            share, present = (sum(use[model] for use in each) / len(uses) for each in _by_model(uses))
            computed_share = busy[f"{kind}: {model}"] * (present if server.turns else 1.0)
            assert computed_share == pytest.approx(share, rel=LIMIT, abs=0.01), (kind, model)


def test_the_table_has_every_kind_of_farm() -> None:
    farms = [farm for farm, _ in FARMS.values()]
    loads = [load for _, loads in FARMS.values() for load in loads]
    assert any(len({*farm.servers}) > 1 for farm in farms)
    assert any(farm.proxy for farm in farms)
    assert any(server.turns for farm in farms for server in farm.servers)
    assert any(getattr(load, "in_flight", 1) > 1 for load in loads)
    assert len(FARMS) > 20
