# SPDX-License-Identifier: Apache-2.0
"""Sequence batchers."""

from __future__ import annotations

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from hypersonic.server.core.config.check import check_config
from hypersonic.server.core.scheduling.sequence import SequenceBatcher

CONFIG = """
name: "m" backend: "python" max_batch_size: 4
input [ {{ name: "x" data_type: TYPE_INT32 dims: [ 1 ] }} ]
output [ {{ name: "y" data_type: TYPE_INT32 dims: [ 1 ] }} ]
sequence_batching {{
  {strategy}
  control_input [
    {{ name: "START" control [ {{ kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] }} ] }},
    {{ name: "END" control [ {{ kind: CONTROL_SEQUENCE_END fp32_false_true: [ 0, 1 ] }} ] }},
    {{ name: "READY" control [ {{ kind: CONTROL_SEQUENCE_READY bool_false_true: [ false, true ] }} ] }},
    {{ name: "CORRID" control [ {{ kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 }} ] }} ]
  {more}
}}
"""


DIRECT = "direct { }"


def batcher(strategy: str = DIRECT, more: str = "", instances: int = 1) -> SequenceBatcher:
    message = text_format.Parse(CONFIG.format(strategy=strategy, more=more), model_config_pb2.ModelConfig())
    return SequenceBatcher(check_config(message), 4, instances)
