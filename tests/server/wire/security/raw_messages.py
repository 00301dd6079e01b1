# SPDX-License-Identifier: Apache-2.0
"""Messages built byte by byte, and the memory that the server takes to answer them."""

from __future__ import annotations

import re
from pathlib import Path

from hypersonic.server.wire.grpc.messages import varint
from tests.support.server_program import Program

INFER = "/inference.GRPCInferenceService/ModelInfer"


def most_bytes(server: Program) -> int:
    text = Path(f"/proc/{server.process.pid}/status").read_text()
    match = re.search(r"VmHWM:\s+(\d+) kB", text)
    assert match
    return int(match[1]) << 10


def field(number: int, body: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(body)) + body
