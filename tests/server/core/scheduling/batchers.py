# SPDX-License-Identifier: Apache-2.0
"""Dynamic batchers, and requests for them."""

from __future__ import annotations

from hypersonic.server.core.config.schema import DynamicBatching, QueuePolicy
from hypersonic.server.core.inference.pending import PendingRequest
from hypersonic.server.core.inference.request import CheckedRequest
from hypersonic.server.core.scheduling.batcher import DynamicBatcher
from hypersonic.server.core.scheduling.rule import BatchRule


def pending(rows: int, timeout_us: int = 0, client: str = "") -> PendingRequest:
    request = CheckedRequest("", rows, (memoryview(bytes(rows)),), ((rows,),), (0,), timeout_us=timeout_us)
    return PendingRequest(request, lambda *_: b"", 0, client=client)


def batcher(
    capacity: int = 64,
    preferred: tuple[int, ...] = (),
    delay_us: int = 0,
    policy: QueuePolicy | None = None,
    merge: bool = True,
) -> DynamicBatcher:
    batching = DynamicBatching(preferred, delay_us, policy or QueuePolicy()) if merge else None
    return DynamicBatcher(BatchRule.of(capacity, batching, 10**6))


def enqueue(target: DynamicBatcher, *rows: int) -> list[PendingRequest]:
    requests = [pending(n) for n in rows]
    for request in requests:
        target.enqueue(request)
    return requests
