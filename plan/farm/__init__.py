# SPDX-License-Identifier: Apache-2.0
"""A discrete-event simulation of a farm: jobs, links, servers and cards.

::

    from hypersonic.plan.farm import Call, ClosedLoop, Farm, Linear, Link, Server, simulate

    u250 = Server(Linear(0.0, 1 / 86e6), link=Link(100e9), cpu_cores=8)
    facile = Call(rows=16_000, request_bytes=1.152e6, answer_bytes=64e3)
    result = simulate(Farm((u250,)), ClosedLoop(3000, 0.6, facile), seconds=12, warmup_s=2)
    print(result.events_per_s, result.event_s.p99_s, result.utilisation.units)

The path of a call; each resource is FIFO::

    job or arrival -> site's link -> proxy -> balancer -> server's link, cores -> card's link -> queue -> slot -> compute unit
    client <- site's link <- proxy <- server's link <------------------------------------------------------------'

- Links are full duplex and pipelined: the second one begins with the first byte, not after the last.
- A server may host several models: each has a queue and units of its own, and they share the link between host and cards.
  Or they take turns on its cards, by a rule that is handed in too (turns.py).
- Servers may differ in cards and models; a call goes to those that host its model. The proxy is left out if there is none.
- A queue is served by all units of its model and server. The batching rule is handed in (batching.py), because `plan` does not
  import `server`; the command passes the server's own one.
- Refused and lost attempts are retried as the project's client does, with its pauses and its token bucket.
- A request past its deadline leaves the queue; an execution that has begun is finished, and its answer is thrown away.

Not simulated: packets and TCP (a link is work-conserving and shares nothing unfairly), the processor time of answers, a
card that hangs before it fails, priorities, and clients that prefer a server they know.

Checks, in tests/plan/farm: exponential service against exact mean-value analysis (mva.py), single queues against closed
formulas (queues.py), saturation against the published figures of a T4 and a U250.
"""

from hypersonic.plan.farm.batching import Batching, Queued, Take, Wait
from hypersonic.plan.farm.errors import FarmError
from hypersonic.plan.farm.loads import Call, ClosedLoop, Load, OpenLoop, Retry
from hypersonic.plan.farm.machines import Failure, Farm, Hosted, Link, Proxy, Server
from hypersonic.plan.farm.result import Counts, Mix, Result, Second, ServerUse, Spread, Utilisation
from hypersonic.plan.farm.service import Constant, Histogram, Linear, ServiceTime
from hypersonic.plan.farm.simulate import simulate, simulate_mix
from hypersonic.plan.farm.turns import CardState, Guest, Later, TurnRule, Turns
from hypersonic.plan.farm.turns import Load as LoadCard

__all__ = [
    "Farm", "Server", "Hosted", "Proxy", "Link", "Failure",
    "Call", "ClosedLoop", "OpenLoop", "Load", "Retry",
    "ServiceTime", "Constant", "Linear", "Histogram",
    "Batching", "Queued", "Take", "Wait",
    "Turns", "TurnRule", "CardState", "Guest", "LoadCard", "Later",
    "simulate", "Result", "Spread", "Utilisation", "Counts", "Second",
    "simulate_mix", "Mix", "ServerUse",
    "FarmError",
]  # fmt: skip
