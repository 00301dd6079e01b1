# SPDX-License-Identifier: Apache-2.0
"""The task of the jet tagger: the same rows, figure of merit and float network."""

from __future__ import annotations

from hypersonic.hls.zoo.jets_logits.task import TASK

__all__ = ["TASK"]
