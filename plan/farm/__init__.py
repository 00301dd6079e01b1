# SPDX-License-Identifier: Apache-2.0
"""A discrete-event simulation of a farm: jobs, links, servers and cards.

::

    from hypersonic.plan.farm import Call, ClosedLoop, Farm, Linear, Link, Server, simulate

    u250 = Server(Linear(0.0, 1 / 86e6), link=Link(100e9), cpu_cores=8)
    facile = Call(rows=16_000, request_bytes=1.152e6, answer_bytes=64e3)
    result = simulate(Farm((u250,)), ClosedLoop(3000, 0.6, facile), seconds=12, warmup_s=2)
    print(result.events_per_s, result.event_s.p99_s, result.utilisation.units)

The path of a call; each resource is FIFO::

    job or arrival -> balancer -> site's link -> server's link -> server's cores -> queue -> slot -> compute unit
    client <- site's link <- server's link <-----------------------------------------------------------'

- Links are full duplex and pipelined: the second one begins with the first byte, not after the last.
- A queue is served by all units of its server. The batching rule is handed in (batching.py), because `plan` does not
  import `server`; the command passes the server's own one.
- Refused and lost attempts are retried as the project's client does, with its pauses and its token bucket.
- A request past its deadline leaves the queue; an execution that has begun is finished, and its answer is thrown away.

Not simulated: packets and TCP (a link is work-conserving and shares nothing unfairly), the copy of rows to a card as a
separate step (it is a part of the service time, or hidden behind it), the processor time of answers, a card that hangs before
it fails, priorities, and clients that prefer a server they know.

Checks, in tests/plan/farm: exponential service against exact mean-value analysis (mva.py), single queues against closed
formulas (queues.py), saturation against the published figures of a T4 and a U250. bench/farm_speed.py prints how long a
simulation takes, and bench/farm_overload.py checks what overload.py says about queue limits.
"""

from hypersonic.plan.farm.batching import Batching, Queued, Take, Wait
from hypersonic.plan.farm.errors import FarmError
from hypersonic.plan.farm.loads import Call, ClosedLoop, Load, OpenLoop, Retry
from hypersonic.plan.farm.machines import Balancing, Failure, Farm, Link, Server
from hypersonic.plan.farm.result import Counts, Result, Second, Spread, Utilisation
from hypersonic.plan.farm.service import Constant, Exponential, Histogram, Linear, ServiceTime
from hypersonic.plan.farm.simulate import simulate

__all__ = [
    "Farm", "Server", "Link", "Balancing", "Failure",
    "Call", "ClosedLoop", "OpenLoop", "Load", "Retry",
    "ServiceTime", "Constant", "Exponential", "Linear", "Histogram",
    "Batching", "Queued", "Take", "Wait",
    "simulate", "Result", "Spread", "Utilisation", "Counts", "Second",
    "FarmError",
]  # fmt: skip
