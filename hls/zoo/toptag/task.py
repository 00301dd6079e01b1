# SPDX-License-Identifier: Apache-2.0
"""The top tagger's figure of merit: the area under its ROC curve."""

from __future__ import annotations

from hypersonic.hls.zoo.jets.report import area
from hypersonic.hls.zoo.task import Task, held_out
from hypersonic.hls.zoo.toptag.events import HELD_OUT_SEED, jets

TASK = Task(held_out(jets, HELD_OUT_SEED, "top"), "AUC of top quarks", area, rows=3_000, rtl_rows=300)
