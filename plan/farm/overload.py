# SPDX-License-Identifier: Apache-2.0
"""The queue limit with which a farm keeps its goodput in overload.

In overload every queue is full, so the last request that a server takes waits for queue_limit + 1 executions, and then for its
own. If that takes longer than the deadline allows, the units work on requests that all finish just too late: goodput falls to a
fifth of the capacity. With deadlines of

::

    deadline >= transfers + (queue_limit + 1) * service / units + service

answers are in time. bench/farm_overload.py prints, for 100 servers of one unit with constant service times at 1.5 times
saturation, with the retries of this project's client and a link that carries all attempts::

    queue limit   deadline / service   goodput / capacity
    1             9                    0.99
    4             4                    0.21
    4             5                    0.86
    4             6                    0.99                  the bound, without transfers
    4             8                    1.00
    8             9                    0.86                  the bound is 10
    8             11                   1.00
    none          9                    0.28

A queue limit of 1 already keeps a unit busy. The links and processors have to carry all attempts, refused ones included: at 1.5
times saturation that is 1.5 + 0.5 = 2 times the capacity (a success pays for half a retry). Where they cannot, admission_limit
or a circuit breaker of the proxy has to refuse calls before their body is sent.

On such a farm the busy share of the units gives an early warning: when the rate rises from 0.3 or 0.5 of the capacity to
1.2 of it within a minute, the share passes 0.8 at a load of 0.82 to 0.85, and the 99th percentile of the waits has doubled only
at 0.98 and above. The reason is that each call takes the less loaded of two servers.
"""

from __future__ import annotations

import math

from hypersonic.plan.farm.errors import FarmError, check_count, check_not_negative, check_positive


def find_queue_limit(deadline_s: float, service_s: float, units: int = 1, transfer_s: float = 0.0) -> int:
    """Return the largest queue limit of a server with which its answers are in time in overload, 1 or more.

    Args:
        deadline_s: of the clients.
        service_s: the longest usual time of an execution, such as the 99th percentile.
        units: compute units of the server.
        transfer_s: of the request and the answer, and the pauses of clients before retries.

    Raises:
        FarmError: If no limit is low enough.
    """
    check_positive(deadline_s=deadline_s, service_s=service_s)
    check_count(1, units=units)
    check_not_negative(transfer_s=transfer_s)
    limit = math.floor(units * ((deadline_s - transfer_s) / service_s - 1) - 1 + 1e-9)
    if limit < 1:
        least_s = transfer_s + service_s * (1 + 2 / units)
        raise FarmError(
            f"no queue limit keeps answers within a deadline of {deadline_s:g} s in overload: an execution takes "
            f"{service_s:g} s and the transfers {transfer_s:g} s; expected a deadline of {least_s:g} s or more: raise it, or "
            "send fewer rows"
        )
    return limit
