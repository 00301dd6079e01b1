# SPDX-License-Identifier: Apache-2.0
"""Bus models for cocotb benches: streams, all stepped by one clock. AXI4 stands in sim/axi_bus.py.

    clk  __________/‾‾‾‾‾‾‾‾‾‾\\__________/‾‾‾
         ^ drive  ^ sample    ^ drive
                  (stable: what the next rising edge sees)

Every agent drives while the clock is low and samples just before it rises, so there is no race with the design and a
handshake is what `sample` sees. Pauses are random, from the bench's own generator: the same seed, the same run.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from cocotb.triggers import Timer


class ProtocolError(AssertionError):
    """The design broke a rule of its bus."""


class Agent(Protocol):
    """Something on a bus. drive and sample are called once a clock each, reset while the design is in reset."""

    def drive(self) -> None: ...

    def sample(self) -> None: ...

    def reset(self) -> None: ...


class Bench:
    """A clock, a reset, and the agents that follow them."""

    def __init__(self, dut: Any, agents: Sequence[Agent], clk: str = "clk", rst_n: str = "rst_n") -> None:
        self.clocks = 0
        self.agents = list(agents)
        self._clk = getattr(dut, clk)
        self._rst_n = getattr(dut, rst_n)

    async def step(self, clocks: int = 1) -> None:
        for _ in range(clocks):
            self._clk.value = 0
            for agent in self.agents:
                agent.drive()
            await Timer(1, "ns")
            for agent in self.agents:
                agent.sample()
            self._clk.value = 1
            self.clocks += 1
            await Timer(1, "ns")

    async def until(self, done: Callable[[], bool], limit: int = 100_000) -> None:
        """Step until `done()`. Raises TimeoutError after `limit` clocks."""
        for _ in range(limit):
            if done():
                return
            await self.step()
        raise TimeoutError(f"not done after {limit} clocks")

    async def reset(self, clocks: int = 4) -> None:
        """Hold the design and every agent in reset."""
        self._rst_n.value = 0
        for _ in range(clocks):
            for agent in self.agents:
                agent.reset()
            self._clk.value = 0
            await Timer(1, "ns")
            self._clk.value = 1
            await Timer(1, "ns")
        self._rst_n.value = 1


Item = dict[str, int]


class Channel:
    """Any valid/ready bundle, watched: an offer must stand, unchanged, until it is taken."""

    def __init__(self, dut: Any, name: str, valid: str, ready: str, fields: Sequence[str]) -> None:
        """fields: port names, the keys of an item."""
        self.name = name
        self._valid = getattr(dut, valid)
        self._ready = getattr(dut, ready)
        self._fields = {field: getattr(dut, field) for field in fields}
        self._standing: Item | None = None

    def sample(self) -> Item | None:
        """The item that the next edge transfers, if any. Raises ProtocolError."""
        offered = {field: int(handle.value) for field, handle in self._fields.items()} if self._valid.value == 1 else None
        if self._standing is not None and offered != self._standing:
            raise ProtocolError(f"{self.name}: offered {self._standing}, not taken, and then {offered}")
        taken = offered if self._ready.value == 1 else None
        self._standing = offered if taken is None else None
        return taken

    def reset(self) -> None:
        self._standing = None


class Source:
    """Drives a stream: each item of `send` once, in order, valid held until it is taken."""

    def __init__(self, dut: Any, prefix: str, fields: Sequence[str], rng: random.Random, pause: float = 0.0) -> None:
        """fields: the ports' names after the prefix, the keys of an item."""
        self._valid = getattr(dut, f"{prefix}_tvalid")
        self._ready = getattr(dut, f"{prefix}_tready")
        self._fields = {name: getattr(dut, f"{prefix}_{name}") for name in fields}
        self._rng = rng
        self._waiting: deque[Item] = deque()
        self._shown = False
        self.pause = pause
        self.taken = 0

    def send(self, **item: int) -> None:
        self._waiting.append(item)

    @property
    def idle(self) -> bool:
        return not self._waiting

    def drive(self) -> None:
        if self._shown:
            return
        self._shown = bool(self._waiting) and self._rng.random() >= self.pause
        self._valid.value = int(self._shown)
        if self._shown:
            for name, handle in self._fields.items():
                handle.value = self._waiting[0][name]

    def sample(self) -> None:
        if self._shown and self._ready.value == 1:
            self._waiting.popleft()
            self.taken += 1
            self._shown = False

    def reset(self) -> None:
        self._waiting.clear()
        self._shown = False
        self._valid.value = 0


class Sink:
    """Takes a stream: `received` are the items, ready falls at random."""

    def __init__(self, dut: Any, prefix: str, fields: Sequence[str], rng: random.Random, pause: float = 0.0) -> None:
        """fields: the ports' names after the prefix, the keys of an item."""
        ports = {f"{prefix}_{field}": field for field in fields}
        self._channel = Channel(dut, prefix, f"{prefix}_tvalid", f"{prefix}_tready", tuple(ports))
        self._names = ports
        self._ready = getattr(dut, f"{prefix}_tready")
        self._rng = rng
        self.pause = pause
        self.received: list[Item] = []

    def drive(self) -> None:
        self._ready.value = int(self._rng.random() >= self.pause)

    def sample(self) -> None:
        item = self._channel.sample()
        if item is not None:
            self.received.append({self._names[port]: value for port, value in item.items()})

    def reset(self) -> None:
        self._channel.reset()
        self._ready.value = 0
