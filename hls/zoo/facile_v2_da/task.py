# SPDX-License-Identifier: Apache-2.0
"""The task of FACILE v2: the same rows, figure of merit and float network."""

from __future__ import annotations

from hypersonic.hls.zoo.facile_v2.task import TASK

__all__ = ["TASK"]
