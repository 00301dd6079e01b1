# SPDX-License-Identifier: Apache-2.0
"""The file config.pbtxt of a published model: Triton's ModelConfig in protobuf text format, put together as plain text.

The server parses it as protobuf, so an operator may change or add any field of ModelConfig afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from hypersonic.firmware.card_parameters import SLOT_ROWS, SLOTS, TIMEOUT_MS
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.target import Target
from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec

FILE_NAME = "config.pbtxt"
#: the parameter that describes packed rows to clients
PACKED_ROWS = "packed_rows"
#: rows of one FACILE event, the request SONIC's clients send
PREFERRED_BATCH_SIZE = 16000
MAX_QUEUE_DELAY_US = 100
#: the largest buffer of a slot: on a card, and on an emulated card, whose runs take processor time
SLOT_BYTES, _EMULATED_SLOT_BYTES = 16 << 20, 2 << 20
#: the most clocks of a simulated run, and the timeout of a long one on a busy machine
_EMULATED_CLOCKS, _EMULATED_TIMEOUT_MS = 1_000_000, 120_000
#: the parameter for a model whose answers are far from the trained model's, which its build accepted
FAR = "far_from_trained_model"
#: limits for a run of the model's own C++, which does about 300 million multiplications a second: the most multiplications of
#: a run, and the number from which a run counts as long
_CSIM_MULTIPLICATIONS, _LONG_RUN_MULTIPLICATIONS = 4_000_000_000, 300_000_000
#: the bytes of a row and the clocks of a run from which a simulated run counts as long
_LONG_ROW_BYTES, _LONG_RUN_CLOCKS = 1024, 100_000


def config_pbtxt(
    manifest: Manifest, *, preferred_batch_size: int = PREFERRED_BATCH_SIZE, max_queue_delay_us: int = MAX_QUEUE_DELAY_US,
    parameters: Mapping[str, str] | None = None,
) -> str:  # fmt: skip
    """The text of config.pbtxt for this manifest.

    Args:
        preferred_batch_size: in rows, reduced to the manifest's max_batch_size where it is larger.
        parameters: added to slot_rows, slots and timeout_ms, which follow from the bytes and clocks of a row, or in place of
            them.
    """
    lines = [
        f"name: {_quoted(manifest.model)}",
        'backend: "fpga"',
        f"max_batch_size: {manifest.max_batch_size}",
        _tensors("input", manifest.inputs),
        _tensors("output", manifest.outputs),
        _batching(min(preferred_batch_size, manifest.max_batch_size), max_queue_delay_us),
        "instance_group [\n  {\n    count: 1\n    kind: KIND_CPU\n  }\n]",
        *(_parameter(key, value) for key, value in _parameters(manifest, parameters or {}).items()),
    ]
    return "\n".join(lines) + "\n"


def packed_rows(row: Row) -> dict[str, str]:
    """The parameter with the layout of a model's packed inputs, from which a client packs its rows; empty without any."""
    layouts = {tensor.name: tensor.packing.layout() for tensor in row.tensors if tensor.packing and tensor.is_packed}
    return {PACKED_ROWS: json.dumps(layouts)} if layouts else {}


def _parameters(manifest: Manifest, given: Mapping[str, str]) -> dict[str, str]:
    accepted = {FAR: manifest.accepted} if manifest.accepted else {}
    return {**_slots(manifest), **given, **packed_rows(manifest.inputs), **accepted}


def _slots(manifest: Manifest) -> dict[str, str]:
    row_bytes = max(manifest.inputs.row_bytes, manifest.outputs.row_bytes)
    emulated = manifest.target is not Target.HW
    rows, timeout_ms = min(SLOT_ROWS, (_EMULATED_SLOT_BYTES if emulated else SLOT_BYTES) // row_bytes), TIMEOUT_MS
    if emulated:
        work = _csim_work(manifest)
        rows = max(1, min(rows, _EMULATED_CLOCKS // manifest.ii, _CSIM_MULTIPLICATIONS // work))
        is_long = (
            row_bytes >= _LONG_ROW_BYTES or rows * manifest.ii >= _LONG_RUN_CLOCKS or rows * work >= _LONG_RUN_MULTIPLICATIONS
        )
        timeout_ms = _EMULATED_TIMEOUT_MS if is_long else TIMEOUT_MS
    return {"slot_rows": str(max(1, rows)), "slots": str(SLOTS), "timeout_ms": str(timeout_ms)}


def _csim_work(manifest: Manifest) -> int:
    """The multiplications of a row if the model's own C++ computes it, at least 1; 1 for a core, which is counted in clocks."""
    counted = manifest.report.get("multiplications") if manifest.core == CoreKind.CSIM else None
    return max(1, counted) if isinstance(counted, int) else 1


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
    """The value as a string of protobuf's text format, which accepts all of JSON's escapes."""
    return json.dumps(value)
