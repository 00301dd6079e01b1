# SPDX-License-Identifier: Apache-2.0
"""FACILE v2's figure, its rows and its float network."""

from __future__ import annotations

from hypersonic.hls.zoo.facile_v2.task import TASK

__all__ = ["TASK"]
