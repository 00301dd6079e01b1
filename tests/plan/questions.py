# SPDX-License-Identifier: Apache-2.0
"""Questions that several test modules ask."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypersonic.plan.inputs import ModelCost, Question, Site, Target, Workload
from hypersonic.plan.models import ZOO
from hypersonic.plan.server_cost import TRITON

FACILE = ZOO["facile"].cost


def hlt(model: ModelCost = FACILE, *, target: Target | None = None, workload: Workload | None = None, **site: Any) -> Question:
    """3300 HLT jobs that call FACILE, on a site with changes; tritonserver takes 1 ms for a request, whatever is measured."""
    place = Site(server=TRITON, request_cpu_ms=1.0)
    return Question(workload or Workload(jobs=3300), model, replace(place, **site), target or Target())
