# SPDX-License-Identifier: Apache-2.0
"""The path of an attempt: the balancer, the links, a server's processor and queue, and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from hypersonic.plan.farm.engine.clock import Clock
from hypersonic.plan.farm.engine.meter import Meter, Shares
from hypersonic.plan.farm.engine.request import Request
from hypersonic.plan.farm.engine.station import Station
from hypersonic.plan.farm.engine.wires import Cores, Wire
from hypersonic.plan.farm.loads import Call
from hypersonic.plan.farm.machines import Balancing, Failure, Farm, Server
from hypersonic.plan.farm.service import NO_TIME


class Machine:
    """A server with its wires and cores.

    Attributes:
        in_flight: calls that clients wait for.
    """

    __slots__ = ("admission_limit", "cores", "cpu_time_of", "down", "in_flight", "index", "station", "up")

    def __init__(self, index: int, server: Server, station: Station, random: Random, window: tuple[float, float]) -> None:
        self.index, self.station, self.in_flight, self.admission_limit = index, station, 0, server.admission_limit
        self.up, self.down = Wire(server.link, Shares(*window)), Wire(server.link, Shares(*window))
        self.cores = Cores(server.cpu_cores, Shares(*window))
        self.cpu_time_of = None if server.request_cpu == NO_TIME else server.request_cpu.sampler(random)


class Network:
    """All machines, behind the site's link and the balancer.

    Args:
        answered, failed: called when a client learns that its attempt is over; the request may have ended before.
    """

    def __init__(
        self,
        farm: Farm,
        call: Call,
        client_bits_per_s: float,
        clock: Clock,
        meter: Meter,
        seed: int,
        *,
        answered: Callable[[Request], None],
        failed: Callable[[Request], None],
    ) -> None:
        self._clock, self._rows = clock, call.rows
        self._answered, self._failed = answered, failed
        self._request_bits, self._answer_bits = 8.0 * call.request_bytes, 8.0 * call.answer_bytes
        self._sending_s, self._receiving_s = self._request_bits / client_bits_per_s, self._answer_bits / client_bits_per_s
        window = meter.warmup_s, meter.seconds
        self.up, self.down = Wire(farm.link, Shares(*window)), Wire(farm.link, Shares(*window))
        #: answers of several servers share the site's link in an order that is known only when they arrive there
        self._answers_meet = len(farm.servers) > 1 and math.isfinite(farm.link.bits_per_s)
        service, cpu = Random(f"{seed} service"), Random(f"{seed} cpu")
        self.machines = [
            Machine(
                index, server, Station(server, clock, meter, service, finished=self._reply, failed=self._refuse), cpu, window
            )
            for index, server in enumerate(farm.servers)
        ]
        self._rotation = list(self.machines)
        self._two, self._random, self._turn = farm.balancing is Balancing.LEAST_OF_TWO, Random(f"{seed} balancing").random, 0
        self._detection_s = farm.detection_s
        for failure in farm.failures:
            clock.at(failure.at_s, self._fail_card, failure)
            if math.isfinite(failure.returns_s):
                clock.at(failure.returns_s, self._restore_card, failure)

    def send(self, request: Request) -> None:
        """Send an attempt. Everything up to the server's queue is FIFO, so its arrival time there is known now."""
        machine, now_s = self._choose(), self._clock.now
        if machine.admission_limit and machine.in_flight >= machine.admission_limit:
            self._clock.at(now_s + 2 * (self.up.delay_s + machine.up.delay_s), self._failed, request)
            return
        machine.in_flight += 1
        request.server = machine.index
        request.left_rows = request.unfinished_rows = self._rows
        request.started_s = math.inf
        bits = self._request_bits
        first_s, last_s = self.up.cross(bits, now_s, now_s + self._sending_s)
        _, last_s = machine.up.cross(bits, first_s, last_s)
        if machine.cpu_time_of is not None and last_s < request.deadline_s:
            last_s = machine.cores.use(last_s, machine.cpu_time_of(self._rows))
        self._clock.at(last_s, machine.station.arrive, request)

    def release(self, request: Request) -> None:
        """Count a request's attempt as no longer in flight."""
        if request.server >= 0:
            self.machines[request.server].in_flight -= 1
            request.server = -1

    def expire(self, request: Request) -> None:
        """Cancel a request that is past its deadline; it is over."""
        if request.server >= 0:
            self.machines[request.server].station.queue.expire(request)
            self.release(request)

    def _reply(self, request: Request) -> None:
        """Send the answer of a request that has been executed."""
        if request.over:
            self._answered(request)
            return
        machine, now_s = self.machines[request.server], self._clock.now
        first_s, last_s = machine.down.cross(self._answer_bits, now_s, now_s)
        if self._answers_meet:
            self._clock.at(first_s, self._leave_site, (request, last_s))
        else:
            self._arrive(request, first_s, last_s)

    def _leave_site(self, answer: tuple[Request, float]) -> None:
        request, last_s = answer
        self._arrive(request, self._clock.now, last_s)

    def _arrive(self, request: Request, first_s: float, last_s: float) -> None:
        first_s, last_s = self.down.cross(self._answer_bits, first_s, last_s)
        self._clock.at(max(last_s, first_s + self._receiving_s), self._answered, request)

    def _refuse(self, request: Request) -> None:
        """Send the refusal of a request, which is too short to take time on a link."""
        delay_s = self.machines[request.server].down.delay_s + self.down.delay_s
        self._clock.at(self._clock.now + delay_s, self._failed, request)

    def _choose(self) -> Machine:
        machines = self._rotation
        count = len(machines)
        if count == 1:
            return machines[0]
        if not self._two:
            self._turn += 1
            return machines[self._turn % count]
        one, other = int(self._random() * count), int(self._random() * (count - 1))
        first, second = machines[one], machines[other + (other >= one)]
        return second if second.in_flight < first.in_flight else first

    def _fail_card(self, failure: Failure) -> None:
        self.machines[failure.server].station.fail(failure.card)
        self._clock.at(self._clock.now + self._detection_s, self._check, None)

    def _restore_card(self, failure: Failure) -> None:
        self.machines[failure.server].station.restore(failure.card)
        self._clock.at(self._clock.now + self._detection_s, self._check, None)

    def _check(self, _: None) -> None:
        """Balance over the servers with a card in service; over all if none has one, as Envoy does."""
        self._rotation = [machine for machine in self.machines if machine.station.in_service] or list(self.machines)
