# SPDX-License-Identifier: Apache-2.0
"""The runs of a compute unit, controlled by its registers: ap_ctrl_chain as XRT uses it, with several runs in the unit at once.

::

    waiting ---start---> running ---counted in host memory, ap_continue---> COMPLETED
    (any number)         (at most MAX_RUNS, in order)

A run is started as soon as the unit has accepted the arguments of the previous one (ap_start reads 0). Runs complete in the
order in which they were started, and each is acknowledged once. A thread that waits for one run also starts and acknowledges
the others.

A run is complete when the card's count of completed runs in host memory (run_report.sv) includes it: that word is written after
the run's data. ap_done would be too early, because a read of a register is not ordered behind the card's writes to host memory.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from hypersonic.firmware.f2.registers import UNIT_STRIDE
from hypersonic.firmware.kernel import registers
from hypersonic.host.driver import PENDING, RunState
from hypersonic.host.errors import DeviceLostError, RunError
from hypersonic.host.f2.access import GONE, Access

#: the kernel's arguments: register, words; w only where the kernel reads weights
ARGUMENTS = ((registers.X, 2), (registers.Y, 2), (registers.ROWS, 1), (registers.W, 2))


@dataclass(eq=False)
class Run:
    """One set of arguments, None for one that is not set yet.

    Attributes:
        state: of the last start.
    """

    arguments: list[int | None]
    state: RunState = RunState.NEW
    started: bool = False


class Unit:
    """Compute unit `number` of a card. Any thread.

    Args:
        lock: the card's.
        arguments: the number of ARGUMENTS that the unit has.
        completed: (1,) uint32, the runs that the unit has completed, modulo 2**32; the card writes it.
    """

    def __init__(
        self, access: Access, lock: Lock, number: int, name: str, arguments: int, completed: NDArray[np.uint32]
    ) -> None:  # fmt: skip
        self.name, self.arguments = name, arguments
        self._access, self._lock, self._base = access, lock, number * UNIT_STRIDE
        self._completed, self._acknowledged = completed, int(completed[0])
        self._waiting: deque[Run] = deque()
        self._running: deque[Run] = deque()

    def read(self, offset: int) -> int:
        """The unit's 32-bit register at that offset. Raises DeviceLostError."""
        with self._lock:
            return self._access.read(self._base + offset)

    def write(self, offset: int, value: int) -> None:
        """Write the unit's 32-bit register at that offset. Raises DeviceLostError."""
        with self._lock:
            self._access.write(self._base + offset, value)

    def start(self, run: Run) -> None:
        """Start the run, or queue it. Raises RunError, DeviceLostError."""
        missing = [index for index, value in enumerate(run.arguments) if value is None]
        if missing:
            raise RunError(f"a run of {self.name} cannot be started: argument {missing[0]} was not set")
        if run.started and run.state in PENDING:
            raise RunError(f"a run of {self.name} cannot be started: it is in flight: wait for it first")
        with self._lock:
            run.state, run.started = RunState.QUEUED, True
            self._waiting.append(run)
            self._move()

    def wait(self, run: Run, timeout_ms: int) -> RunState:
        """The run's state once it is done, or the present one after timeout_ms. Raises DeviceLostError."""
        deadline = time.monotonic_ns() + timeout_ms * 1_000_000
        while True:
            with self._lock:
                if run in self._waiting or run in self._running:
                    self._move()
                if run.state not in PENDING or not run.started or time.monotonic_ns() >= deadline:
                    return run.state
            self._access.pause()

    def _move(self) -> None:
        """Acknowledge the runs that are done, and start those that wait. The caller holds the lock."""
        control = self._control()
        done = (int(self._completed[0]) - self._acknowledged) % (1 << 32)
        for _ in range(min(done, len(self._running))):
            self._access.write(self._base + registers.CONTROL, registers.AP_CONTINUE)
            self._acknowledged += 1
            self._running.popleft().state = RunState.COMPLETED
        while self._waiting and len(self._running) < registers.MAX_RUNS and not control & registers.AP_START:
            self._hand_over(self._waiting.popleft())
            control = self._control()

    def _hand_over(self, run: Run) -> None:
        for (offset, words), value in zip(ARGUMENTS[: self.arguments], run.arguments, strict=True):
            for word in range(words):
                self._access.write(self._base + offset + 4 * word, (value or 0) >> (32 * word) & 0xFFFFFFFF)
        self._access.write(self._base + registers.CONTROL, registers.AP_START)
        run.state = RunState.RUNNING
        self._running.append(run)

    def _control(self) -> int:
        control = self._access.read(self._base + registers.CONTROL)
        if control == GONE:
            raise DeviceLostError(
                f"compute unit {self.name} reads all ones: the card is gone from the bus or its OCL bus timed out; "
                "load its image again with `fpga-load-local-image`"
            )
        return control
