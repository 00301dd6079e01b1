# SPDX-License-Identifier: Apache-2.0
"""ResNet-8's figure of merit: the fraction of images that are classified correctly."""

from __future__ import annotations

from hypersonic.hls.zoo.resnet8.events import HELD_OUT_SEED, generate
from hypersonic.hls.zoo.task import Task, accuracy, held_out

TASK = Task(held_out(generate, HELD_OUT_SEED, "kind", ["pixel"]), "accuracy over ten kinds", accuracy, rows=1_000, rtl_rows=100)
