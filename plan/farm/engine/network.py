# SPDX-License-Identifier: Apache-2.0
"""The path of an attempt: the balancer, the links, a server's processor and queue, and back."""

from __future__ import annotations

import math
from random import Random

from hypersonic.plan.farm.engine.clock import Clock
from hypersonic.plan.farm.engine.meter import Meter, Shares
from hypersonic.plan.farm.engine.request import Request
from hypersonic.plan.farm.engine.station import Station
from hypersonic.plan.farm.engine.wires import Cores, Wire
from hypersonic.plan.farm.machines import Failure, Farm, Proxy, Server
from hypersonic.plan.farm.service import NO_TIME


class Machine:
    """A server with its wires and cores.

    Attributes:
        in_flight: calls that clients wait for.
        stations: by model.
        lock: what one request at a time is worked on under.
        cpu_time_of: by model, for those whose requests take processor time.
        transfers: the links between host and cards.
        transfer_time_of: by model, for those whose transfers take time.
    """

    __slots__ = (
        "admission_limit", "cores", "cpu_time_of", "down", "in_flight", "index", "lock", "server", "stations",
        "transfer_time_of", "transfers", "up",
    )  # fmt: skip

    def __init__(self, index: int, server: Server, stations: dict[str, Station], random: Random, meter: Meter) -> None:
        window = meter.warmup_s, meter.seconds
        self.index, self.server, self.stations = index, server, stations
        self.in_flight, self.admission_limit = 0, server.admission_limit
        self.up, self.down = Wire(server.link, Shares(*window)), Wire(server.link, Shares(*window))
        self.cores = Cores(server.cpu_cores, Shares(*window))
        self.transfers = Cores(server.cards, Shares(*window))
        self.lock = Cores(1, Shares(*window))
        self.cpu_time_of = {
            each.model: each.request_cpu.sampler(random) for each in server.hosted if each.request_cpu != NO_TIME
        }
        self.transfer_time_of = {
            each.model: each.transfer.sampler(random) for each in server.hosted if each.transfer != NO_TIME
        }


class Relay:
    """A proxy with its wires and cores."""

    __slots__ = ("cores", "cpu_time_of", "down", "up")

    def __init__(self, proxy: Proxy, random: Random, meter: Meter) -> None:
        window = meter.warmup_s, meter.seconds
        self.up, self.down = Wire(proxy.link, Shares(*window)), Wire(proxy.link, Shares(*window))
        self.cores = Cores(proxy.cpu_cores, Shares(*window))
        self.cpu_time_of = proxy.request_cpu.sampler(random)


class Network:
    """All machines, behind the site's link and the balancer. It tells the owner of a request how its attempts end."""

    def __init__(self, farm: Farm, clock: Clock, meter: Meter, seed: int) -> None:
        self._clock = clock
        window = meter.warmup_s, meter.seconds
        self.up, self.down = Wire(farm.link, Shares(*window)), Wire(farm.link, Shares(*window))
        #: answers of several servers share the site's link in an order that is known only when they arrive there
        self._answers_meet = len(farm.servers) > 1 and math.isfinite(farm.link.bits_per_s)
        service, cpu = Random(f"{seed} service"), Random(f"{seed} cpu")
        self.machines = []
        for index, server in enumerate(farm.servers):
            stations = {
                hosted.model: Station(hosted, server, clock, meter, service, finished=self._reply, failed=self._refuse)
                for hosted in server.hosted
            }
            self.machines.append(Machine(index, server, stations, cpu, meter))
        self.relays = [Relay(farm.proxy, cpu, meter) for _ in range(farm.proxy.count)] if farm.proxy else []
        self._passed = 0
        #: the machines that calls of a model may go to
        self._rotation: dict[str, list[Machine]] = {}
        self._check(None)
        self._random = Random(f"{seed} balancing").random
        self._detection_s = farm.detection_s
        for failure in farm.failures:
            clock.at(failure.at_s, self._fail_card, failure)
            if math.isfinite(failure.returns_s):
                clock.at(failure.returns_s, self._restore_card, failure)

    def send(self, request: Request, sending_s: float = 0.0) -> None:
        """Send an attempt. Up to the proxy, or else to the server's queue, all is FIFO, so its arrival there is known now.

        Args:
            sending_s: that the client's own network needs.
        """
        now_s = self._clock.now
        if not self.relays:
            self._to_server(request, sending_s, now_s, None)
            return
        self._passed = request.proxy = (self._passed + 1) % len(self.relays)
        relay, bits = self.relays[request.proxy], 8.0 * request.call.request_bytes
        first_s, last_s = relay.up.cross(bits, *self.up.cross(bits, now_s, now_s + sending_s))
        done_s = relay.cores.use(first_s, relay.cpu_time_of(request.call.rows))
        self._clock.at(done_s, self._forward, (request, max(last_s, done_s)))

    def _forward(self, passed: tuple[Request, float]) -> None:
        """Send on what a proxy has begun to receive."""
        request, last_s = passed
        if not request.over:
            self._to_server(request, 0.0, self._clock.now, last_s)

    def _to_server(self, request: Request, sending_s: float, now_s: float, last_s: float | None) -> None:
        """Send an attempt to the server's queue.

        Args:
            last_s: when its last bit leaves the proxy; None = there is no proxy.
        """
        machine, call = self._choose(request.call.model), request.call
        delay_s = self.up.delay_s if last_s is None else 0.0
        if machine.admission_limit and machine.in_flight >= machine.admission_limit:
            self._clock.at(now_s + 2 * (delay_s + machine.up.delay_s), request.owner.attempt_failed, request)
            return
        machine.in_flight += 1
        request.server = machine.index
        request.left_rows = request.unfinished_rows = call.rows
        request.started_s = math.inf
        bits, first_s = 8.0 * call.request_bytes, now_s
        if last_s is None:
            first_s, last_s = self.up.cross(bits, now_s, now_s + sending_s)
        _, last_s = machine.up.cross(bits, first_s, last_s)
        if last_s < request.deadline_s:
            if call.model in machine.cpu_time_of:
                begin_s, last_s = last_s, machine.cores.use(last_s, machine.cpu_time_of[call.model](call.rows))
                if machine.server.lock_s:
                    last_s = max(last_s, machine.lock.use(begin_s, machine.server.lock_s))
            if call.model in machine.transfer_time_of:
                last_s = machine.transfers.use(last_s, machine.transfer_time_of[call.model](call.rows))
        self._clock.at(last_s, machine.stations[call.model].arrive, request)

    def release(self, request: Request) -> None:
        """Count a request's attempt as no longer in flight."""
        if request.server >= 0:
            self.machines[request.server].in_flight -= 1
            request.server = -1

    def expire(self, request: Request) -> None:
        """Cancel a request that is past its deadline; it is over."""
        if request.server >= 0:
            self.machines[request.server].stations[request.call.model].queue.expire(request)
            self.release(request)

    def _reply(self, request: Request) -> None:
        """Send the answer of a request that has been executed."""
        if request.over:
            request.owner.answered(request)
            return
        machine, now_s = self.machines[request.server], self._clock.now
        first_s, last_s = machine.down.cross(8.0 * request.call.answer_bytes, now_s, now_s)
        if self._answers_meet or self.relays:
            self._clock.at(first_s, self._leave_site, (request, last_s))
        else:
            self._arrive(request, first_s, last_s)

    def _leave_site(self, answer: tuple[Request, float]) -> None:
        request, last_s = answer
        self._arrive(request, self._clock.now, last_s)

    def _arrive(self, request: Request, first_s: float, last_s: float) -> None:
        bits = 8.0 * request.call.answer_bytes
        if self.relays:
            first_s, last_s = self.relays[request.proxy].down.cross(bits, first_s, last_s)
        first_s, last_s = self.down.cross(bits, first_s, last_s)
        receiving_s = bits / request.owner.client_bits_per_s
        self._clock.at(max(last_s, first_s + receiving_s), request.owner.answered, request)

    def _refuse(self, request: Request) -> None:
        """Send the refusal of a request, which is too short to take time on a link."""
        relay_s = self.relays[request.proxy].down.delay_s if self.relays else 0.0
        delay_s = self.machines[request.server].down.delay_s + relay_s + self.down.delay_s
        self._clock.at(self._clock.now + delay_s, request.owner.attempt_failed, request)

    def _choose(self, model: str) -> Machine:
        machines = self._rotation[model]
        count = len(machines)
        if count == 1:
            return machines[0]
        one, other = int(self._random() * count), int(self._random() * (count - 1))
        first, second = machines[one], machines[other + (other >= one)]
        return second if second.in_flight < first.in_flight else first

    def _fail_card(self, failure: Failure) -> None:
        for station in self.machines[failure.server].stations.values():
            station.fail(failure.card)
        self._clock.at(self._clock.now + self._detection_s, self._check, None)

    def _restore_card(self, failure: Failure) -> None:
        for station in self.machines[failure.server].stations.values():
            station.restore(failure.card)
        self._clock.at(self._clock.now + self._detection_s, self._check, None)

    def _check(self, _: None) -> None:
        """Balance over the servers with a card in service; over all of a model if none has one, as Envoy does."""
        hosts: dict[str, list[Machine]] = {}
        for machine in self.machines:
            for model in machine.stations:
                hosts.setdefault(model, []).append(machine)
        for model, machines in hosts.items():
            self._rotation[model] = [each for each in machines if each.stations[model].serves] or machines
