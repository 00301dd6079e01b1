# SPDX-License-Identifier: Apache-2.0
"""Questions that several test modules ask."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypersonic.plan.inputs import ModelCost, Question, Site, Target, Workload
from hypersonic.plan.models import ZOO

FACILE = ZOO["facile"].cost


def hlt(model: ModelCost = FACILE, *, target: Target | None = None, workload: Workload | None = None, **site: Any) -> Question:
    """3300 HLT jobs that call FACILE, on the default site with changes."""
    return Question(workload or Workload(jobs=3300), model, replace(Site(), **site), target or Target())
