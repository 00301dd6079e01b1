# SPDX-License-Identifier: Apache-2.0
"""The task of EmTrkMichelId with packed patches: emtrk's patches and figure of merit."""

from __future__ import annotations

from dataclasses import replace

from hypersonic.hls.zoo.emtrk import task
from hypersonic.hls.zoo.emtrk_packed.events import packed
from hypersonic.hls.zoo.task import Sample


def _sample(rows: int, seed: int) -> Sample:
    generated = task.TASK.sample(rows, seed)
    return Sample((packed(generated.inputs[0]),), generated.truth)


TASK = replace(task.TASK, sample=_sample)
