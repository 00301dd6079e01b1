# SPDX-License-Identifier: Apache-2.0
"""A discrete-event simulation of a farm: jobs, links, servers and cards.

from hypersonic.sim.farm import Call, ClosedLoop, Farm, Linear, Link, Server, simulate

u250 = Server(Linear(0.0, 1 / 86e6), link=Link(100e9), cpu_cores=8)
facile = Call(rows=16_000, request_bytes=1.152e6, answer_bytes=64e3)
result = simulate(Farm((u250,)), ClosedLoop(3000, 0.6, facile), seconds=12, warmup_s=2)
print(result.events_per_s, result.event_s.p99_s, result.utilisation.units)
"""

from hypersonic.sim.farm.batching import Batching, Queued, Take, Wait
from hypersonic.sim.farm.errors import FarmError
from hypersonic.sim.farm.loads import Call, ClosedLoop, Load, OpenLoop, Retry
from hypersonic.sim.farm.machines import Balancing, Failure, Farm, Link, Server
from hypersonic.sim.farm.result import Counts, Result, Second, Spread, Utilisation
from hypersonic.sim.farm.service import Constant, Exponential, Histogram, Linear, ServiceTime
from hypersonic.sim.farm.simulate import simulate

__all__ = [
    "Farm", "Server", "Link", "Balancing", "Failure",
    "Call", "ClosedLoop", "OpenLoop", "Load", "Retry",
    "ServiceTime", "Constant", "Exponential", "Linear", "Histogram",
    "Batching", "Queued", "Take", "Wait",
    "simulate", "Result", "Spread", "Utilisation", "Counts", "Second",
    "FarmError",
]  # fmt: skip
