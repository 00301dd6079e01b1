# SPDX-License-Identifier: Apache-2.0
"""The task of FACILE from ADC codes: facile's events and figure of merit, from packed rows."""

from __future__ import annotations

from dataclasses import replace

from hypersonic.hls.zoo.facile import task
from hypersonic.hls.zoo.facile.report import float_predict
from hypersonic.hls.zoo.facile_adc.codes import channels_of, packed
from hypersonic.hls.zoo.task import Inputs, Outputs, Sample


def _sample(rows: int, seed: int) -> Sample:
    generated = task.TASK.sample(rows, seed)
    return Sample((packed(generated.inputs[0]),), generated.truth)


def _float(inputs: Inputs) -> Outputs:
    return (float_predict(channels_of(inputs[0])).reshape(-1, 1),)


TASK = replace(task.TASK, sample=_sample, float_predict=_float)
