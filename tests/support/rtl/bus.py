# SPDX-License-Identifier: Apache-2.0
"""Bus models for cocotb benches: a clock, valid/ready streams, and a module between two. Those for AXI4 are in axi_bus.py.

::

    clk  __________/‾‾‾‾‾‾‾‾‾‾\\__________/‾‾‾
         ^ drive  ^ sample    ^ drive
                  (stable: what the next rising edge sees)

Every agent drives while the clock is low and samples just before it rises. So there is no race with the design, and
`sample` sees exactly the handshakes of the rising edge. Pauses are random and come from the bench's own generator: the
same seed gives the same simulation.
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
    """A bus model. drive and sample are called once in each clock, and reset instead while the design is in reset."""

    def drive(self) -> None:
        """Set the design's inputs while the clock is low."""

    def sample(self) -> None:
        """Look at the design's ports just before the clock rises."""

    def reset(self) -> None:
        """Drop what is in flight and drive idle values."""


class Bench:
    """A clock, a reset, and the agents that they step. `clocks` counts the rising edges outside reset."""

    def __init__(self, dut: Any, agents: Sequence[Agent], clk: str = "clk", rst_n: str = "rst_n") -> None:
        self.clocks = 0
        self.agents = list(agents)
        self._clk = getattr(dut, clk)
        self._rst_n = getattr(dut, rst_n)

    async def step(self, clocks: int = 1) -> None:
        """Run the design and the agents for `clocks` clocks of 2 ns. Raises what an agent raises, such as ProtocolError."""
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

    async def until(self, done: Callable[..., bool], limit: int = 100_000) -> None:
        """Step until `done()`. Raises TimeoutError after `limit` clocks."""
        for _ in range(limit):
            if done():
                return
            await self.step()
        raise TimeoutError(f"not done after {limit} clocks")

    async def reset(self, clocks: int = 4) -> None:
        """Hold the design and every agent in reset for `clocks` clocks."""
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
    """Passive monitor of a valid/ready channel: valid and the payload must not change until the item is taken."""

    def __init__(self, dut: Any, name: str, valid: str, ready: str, fields: Sequence[str]) -> None:
        """Create a Channel.

        Args:
            fields: port names, the keys of an item.
        """
        self.name = name
        self._valid = getattr(dut, valid)
        self._ready = getattr(dut, ready)
        self._fields = {field: getattr(dut, field) for field in fields}
        self._standing: Item | None = None

    def sample(self) -> Item | None:
        """Return the item that the next rising edge transfers, or None.

        Raises ProtocolError if an item was offered, not taken, and has changed or gone.
        """
        offered = {field: int(handle.value) for field, handle in self._fields.items()} if self._valid.value == 1 else None
        if self._standing is not None and offered != self._standing:
            raise ProtocolError(f"{self.name}: offered {self._standing}, not taken, and then {offered}")
        taken = offered if self._ready.value == 1 else None
        self._standing = offered if taken is None else None
        return taken

    def reset(self) -> None:
        """Forget the item on offer."""
        self._standing = None


class Source:
    """Drives a stream with the items of `send`, in order, and holds valid until each is taken.

    pause is the probability, per clock, that no new item is offered. taken counts the items transferred since the start.
    """

    def __init__(self, dut: Any, prefix: str, fields: Sequence[str], rng: random.Random, pause: float = 0.0) -> None:
        """Create a Source.

        Args:
            fields: the ports' names after the prefix, the keys of an item.
        """
        self._valid = getattr(dut, f"{prefix}_tvalid")
        self._ready = getattr(dut, f"{prefix}_tready")
        self._fields = {name: getattr(dut, f"{prefix}_{name}") for name in fields}
        self._rng = rng
        self._waiting: deque[Item] = deque()
        self._shown = False
        self.pause = pause
        self.taken = 0

    def send(self, **item: int) -> None:
        """Queue one item: a value for each field."""
        self._waiting.append(item)

    @property
    def idle(self) -> bool:
        """True if every queued item has been taken."""
        return not self._waiting

    def drive(self) -> None:
        """Offer the next item, unless one is on offer already or the source pauses."""
        if self._shown:
            return
        self._shown = bool(self._waiting) and self._rng.random() >= self.pause
        self._valid.value = int(self._shown)
        if self._shown:
            for name, handle in self._fields.items():
                handle.value = self._waiting[0][name]

    def sample(self) -> None:
        """Remove the item on offer if ready is high."""
        if self._shown and self._ready.value == 1:
            self._waiting.popleft()
            self.taken += 1
            self._shown = False

    def reset(self) -> None:
        """Drop every queued item; `taken` stays."""
        self._waiting.clear()
        self._shown = False
        self._valid.value = 0


class Sink:
    """Takes a stream into `received`. pause is the probability, per clock, that ready is low."""

    def __init__(
        self, dut: Any, prefix: str, fields: Sequence[str], rng: random.Random, pause: float = 0.0, also: Sequence[str] = ()
    ) -> None:
        """Both are keys of an item.

        Args:
            fields: the ports' names after the prefix.
            also: whole names of other ports of the item.
        """
        ports = {**{f"{prefix}_{field}": field for field in fields}, **{name: name for name in also}}
        self._channel = Channel(dut, prefix, f"{prefix}_tvalid", f"{prefix}_tready", tuple(ports))
        self._names = ports
        self._ready = getattr(dut, f"{prefix}_tready")
        self._rng = rng
        self.pause = pause
        self.received: list[Item] = []

    def drive(self) -> None:
        """Drive ready."""
        self._ready.value = int(self._rng.random() >= self.pause)

    def sample(self) -> None:
        """Append the item that the next rising edge transfers. Raises ProtocolError."""
        item = self._channel.sample()
        if item is not None:
            self.received.append({self._names[port]: value for port, value in item.items()})

    def reset(self) -> None:
        """Drive ready low; `received` stays."""
        self._channel.reset()
        self._ready.value = 0


#: probabilities of pauses of the source and of the sink
PAUSES = ((0.0, 0.0), (0.6, 0.0), (0.0, 0.6), (0.3, 0.3))


class StreamTB:
    """A module between a source and a sink, and the items that must come out. A bench names the ports and implements `send`."""

    source_prefix, sink_prefix = "s_axis", "m_axis"
    source_fields: tuple[str, ...] = ("tdata",)
    sink_fields: tuple[str, ...] = ("tdata",)
    #: other ports of an output item
    sink_also: tuple[str, ...] = ()
    #: clocks after the last item in which no other may come
    quiet_clocks = 10

    def __init__(self, dut: Any, pause_in: float = 0.0, pause_out: float = 0.0, seed: int = 1) -> None:
        self.dut, self.rng, self.pause_in = dut, random.Random(seed), pause_in
        self.source = Source(dut, self.source_prefix, self.source_fields, self.rng, pause_in)
        self.sink = Sink(dut, self.sink_prefix, self.sink_fields, self.rng, pause_out, self.sink_also)
        self.bench = Bench(dut, [self.source, *self.others(), self.sink])
        self.expected: list[Item] = []

    def others(self) -> Sequence[Agent]:
        """Return the agents besides the source and the sink. Called once."""
        return ()

    def send(self, count: int) -> None:
        """Send `count` random items or, where items form them, runs; and append to `expected` what must come out."""
        raise NotImplementedError

    def received(self) -> list[Item]:
        """Return what has come out, to be compared with `expected`."""
        return self.sink.received

    async def check(self) -> None:
        """Wait until as much has come out as is expected, and compare. Raises AssertionError."""
        await self.bench.until(lambda: len(self.sink.received) >= len(self.expected))
        await self.bench.step(self.quiet_clocks)
        assert self.received() == self.expected
        assert all(agent.idle for agent in self.bench.agents if isinstance(agent, Source))

    def forget(self) -> None:
        """Forget what was expected and what came out."""
        self.expected.clear()
        self.sink.received.clear()

    @classmethod
    async def check_pauses(cls, dut: Any, *counts: int, pauses: Sequence[tuple[float, float]] = PAUSES) -> None:
        """Send each of `counts` and check what comes out, under several pauses of the source and the sink."""
        for seed, (pause_in, pause_out) in enumerate(pauses):
            tb = cls(dut, pause_in, pause_out, seed)
            await tb.bench.reset()
            for count in counts:
                tb.send(count)
            await tb.check()

    async def check_resets(self, clocks: Sequence[int], before: int, *counts: int) -> None:
        """Send `before`, and reset after a number of clocks; then send each of `counts` and check what comes out."""
        for number in clocks:
            await self.bench.reset(1)
            self.send(before)
            await self.bench.step(number)
            await self.bench.reset(1)
            self.forget()
            for count in counts:
                self.send(count)
            await self.check()
            self.forget()
