# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of Kubernetes' disruption and deployment controllers, for servers with a card each.

Sources: pkg/controller/disruption/disruption.go (getExpectedPodCount, updatePdbStatus), pkg/controller/deployment/rolling.go
and ResolveFenceposts in pkg/controller/deployment/util of Kubernetes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tests.deploy.kubernetes.programs import Manifest


def scaled(value: int | str, total: int, *, up: bool) -> int:
    """A number or a percentage of a total."""
    if isinstance(value, int):
        return value
    share = int(value.removesuffix("%")) * total / 100
    return math.ceil(share - 1e-9) if up else math.floor(share + 1e-9)


def evictions(budget: Manifest, expected: int, healthy: int) -> int:
    """How many of the pods that are ready a PodDisruptionBudget lets leave."""
    wanted = expected - scaled(budget["spec"]["maxUnavailable"], expected, up=True)
    return max(0, healthy - wanted)


@dataclass
class Farm:
    """Servers with a card each. Each version has some that are ready, and some whose card hangs, which never are."""

    old: int
    old_hung: int
    new: int = 0
    new_hung: int = 0


def update(rolling: Manifest, servers: int, hung: int = 0) -> tuple[Farm, int]:
    """A rolling update in a farm without free cards, until nothing changes any more; and the fewest servers that were ready.

    Args:
        rolling: the strategy's numbers or percentages.
        hung: cards that hang. The worst case: a new pod gets one as soon as it is free.
    """
    assert scaled(rolling["maxSurge"], servers, up=True) == 0, "no card is free for a pod more"
    ready = servers - (scaled(rolling["maxUnavailable"], servers, up=False) or 1)
    farm = Farm(servers - hung, hung)
    fewest, before = farm.old, None
    while farm != before:
        before = replace(farm)
        started = servers - farm.old - farm.old_hung - farm.new - farm.new_hung
        on_hung = min(started, hung - farm.old_hung - farm.new_hung)
        farm.new_hung += on_hung
        farm.new += started - on_hung
        farm.old_hung -= min(farm.old_hung, max(0, servers - ready - farm.new_hung))
        farm.old -= min(farm.old, max(0, farm.old + farm.new - ready))
        fewest = min(fewest, farm.old + farm.new)
    return farm, fewest
