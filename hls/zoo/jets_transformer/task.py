# SPDX-License-Identifier: Apache-2.0
"""The transformer's figure of merit: that of the jet tagger without softmax, on the hardest particles of the same jets."""

from __future__ import annotations

from dataclasses import replace

from hypersonic.hls.zoo.jets.events import HELD_OUT_SEED
from hypersonic.hls.zoo.jets_logits import task
from hypersonic.hls.zoo.jets_transformer.events import jets
from hypersonic.hls.zoo.task import held_out

TASK = replace(task.TASK, sample=held_out(jets, HELD_OUT_SEED, "label"), float_predict=None, rows=4_000, rtl_rows=2_000)
