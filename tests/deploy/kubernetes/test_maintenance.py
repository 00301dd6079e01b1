# SPDX-License-Identifier: Apache-2.0
"""The rendered budgets and strategies in farms of any size, by the arithmetic of Kubernetes' controllers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.deploy.kubernetes.controllers import Farm, evictions, update
from tests.deploy.kubernetes.programs import Manifest, one

CARDS = ("u250", "u55c")


@pytest.fixture(params=CARDS)
def farm(request: Any, farms: dict[str, list[Manifest]]) -> list[Manifest]:
    """A farm with cards."""
    return farms[request.param]


def rolling(farm: list[Manifest]) -> Manifest:
    found: Manifest = one(farm, "Deployment")["spec"]["strategy"]["rollingUpdate"]
    return found


@pytest.mark.parametrize("servers", [3, 4, 10, 100, 300])
def test_one_card_that_hangs_does_not_block_the_maintenance_of_other_nodes(farm: list[Manifest], servers: int) -> None:
    budget = one(farm, "PodDisruptionBudget")
    assert evictions(budget, servers, servers - 1) >= 1
    assert evictions({"spec": {"maxUnavailable": 1}}, servers, servers - 1) == 0, "a budget of one does"


def test_of_two_servers_the_last_one_that_works_stays(farm: list[Manifest]) -> None:
    budget = one(farm, "PodDisruptionBudget")
    assert evictions(budget, 2, 2) == 1
    assert evictions(budget, 2, 1) == 0


@given(servers=st.integers(2, 400))
def test_maintenance_leaves_two_thirds_of_a_larger_farm(servers: int, farms: dict[str, list[Manifest]]) -> None:
    allowed = evictions(one(farms["u250"], "PodDisruptionBudget"), servers, servers)
    assert 1 <= allowed <= 0.34 * servers + 1
    assert allowed < servers


@given(servers=st.integers(2, 400))
def test_an_update_ends_and_four_fifths_or_all_but_one_serve_meanwhile(servers: int, farms: dict[str, list[Manifest]]) -> None:
    after, fewest = update(rolling(farms["u250"]), servers)
    assert after == Farm(0, 0, servers, 0)
    assert fewest >= min(servers - 1, 0.8 * servers)


@pytest.mark.parametrize(("servers", "ends"), [(4, False), (9, False), (10, True), (100, True)])
def test_an_update_of_ten_servers_or_more_ends_although_a_card_hangs(farm: list[Manifest], servers: int, ends: bool) -> None:
    after, _ = update(rolling(farm), servers, hung=1)
    assert (after == Farm(0, 0, servers - 1, 1)) == ends


@pytest.mark.parametrize("servers", [3, 4, 9])
def test_a_smaller_farm_sets_two_servers(farm: list[Manifest], servers: int) -> None:
    after, fewest = update({**rolling(farm), "maxUnavailable": 2}, servers, hung=1)
    assert after == Farm(0, 0, servers - 1, 1)
    assert fewest == servers - 2
