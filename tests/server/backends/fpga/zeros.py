# SPDX-License-Identifier: Apache-2.0
"""A request of one row of zeros for the test kernel, without a server around the backend."""

from __future__ import annotations

from hypersonic.server.backends.fpga.backend import FpgaModel
from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.check import check
from hypersonic.server.core.inference.pending import PendingRequest, Share
from hypersonic.server.core.inference.request import InferRequest, InputTensor


def a_row_of_zeros(config: ModelConfig) -> Share:
    (spec,) = config.inputs
    tensor = InputTensor(spec.name, spec.datatype, (1, 18), memoryview(bytes(72)))
    return Share(PendingRequest(check(InferRequest("", (tensor,)), config), lambda *_: None, 0), 0, 1)


def close(model: FpgaModel) -> None:
    for instance in model.instances:
        instance.close()
    model.close()
