# SPDX-License-Identifier: Apache-2.0
"""config.pbtxt of a published model: Triton's ModelConfig in protobuf text format, written as plain text.

The server reads it as protobuf, so an operator may change or add any field of ModelConfig afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from hypersonic.firmware.manifest import Manifest
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec

FILE_NAME = "config.pbtxt"
#: rows of one FACILE event, the request SONIC's clients send
PREFERRED_BATCH_SIZE = 16000
MAX_QUEUE_DELAY_US = 100
#: rows one slot holds, slots per compute unit, and how long a run may take
PARAMETERS = {"slot_rows": "16384", "slots": "2", "timeout_ms": "10000"}


def config_pbtxt(
    manifest: Manifest, *, preferred_batch_size: int = PREFERRED_BATCH_SIZE, max_queue_delay_us: int = MAX_QUEUE_DELAY_US,
    parameters: Mapping[str, str] | None = None,
) -> str:  # fmt: skip
    """The text for this manifest. parameters override or add to PARAMETERS; a preferred size above max_batch_size is cut."""
    lines = [
        f"name: {_quoted(manifest.model)}",
        'backend: "fpga"',
        f"max_batch_size: {manifest.max_batch_size}",
        _tensors("input", manifest.inputs),
        _tensors("output", manifest.outputs),
        _batching(min(preferred_batch_size, manifest.max_batch_size), max_queue_delay_us),
        "instance_group [\n  {\n    count: 1\n    kind: KIND_MODEL\n  }\n]",
        *(_parameter(key, value) for key, value in {**PARAMETERS, **(parameters or {})}.items()),
    ]
    return "\n".join(lines) + "\n"


def _tensors(role: str, row: Row) -> str:
    return f"{role} [\n" + ",\n".join(_tensor(tensor) for tensor in row.tensors) + "\n]"


def _tensor(spec: TensorSpec) -> str:
    dims = ", ".join(str(n) for n in spec.shape)
    return f"  {{\n    name: {_quoted(spec.name)}\n    data_type: TYPE_{spec.datatype}\n    dims: [ {dims} ]\n  }}"


def _batching(preferred_batch_size: int, max_queue_delay_us: int) -> str:
    fields = f"  preferred_batch_size: [ {preferred_batch_size} ]\n  max_queue_delay_microseconds: {max_queue_delay_us}\n"
    return f"dynamic_batching {{\n{fields}}}"


def _parameter(key: str, value: str) -> str:
    return f"parameters {{\n  key: {_quoted(key)}\n  value {{ string_value: {_quoted(value)} }}\n}}"


def _quoted(value: str) -> str:
    """A protobuf text string; JSON's escapes are a subset of what protobuf reads."""
    return json.dumps(value)
