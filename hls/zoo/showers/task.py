# SPDX-License-Identifier: Apache-2.0
"""The interaction network's figure of merit: the area under its ROC curve."""

from __future__ import annotations

from hypersonic.hls.zoo.jets.report import area
from hypersonic.hls.zoo.showers.events import HELD_OUT_SEED, showers
from hypersonic.hls.zoo.task import Task, held_out

TASK = Task(held_out(showers, HELD_OUT_SEED, "electron"), "AUC of electrons", area, rows=4_000, rtl_rows=4_000)
