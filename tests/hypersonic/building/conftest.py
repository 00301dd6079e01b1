# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from tests.hypersonic.building.own_models import own

__all__ = ["own"]
