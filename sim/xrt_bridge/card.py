# SPDX-License-Identifier: Apache-2.0
"""The device process: the card behind XRT's emulation socket. XRT starts one for each loaded xclbin.

::

    python -m hypersonic.sim.xrt_bridge.card model.xclbin [socket]

It has one Verilated kernel per compute unit and the memory of the xclbin's banks, where XRT's allocator places buffer
objects. A kernel's clock runs while XRT reads its control register, which XRT does all the time while a run is in flight.

A wrong request of the host, such as an address that is not allocated or a size that does not fit, is answered with a
refusal, and the host prints the reason. A message that cannot be decoded ends the process.
"""

from __future__ import annotations

import logging
import socket
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from hypersonic.firmware.errors import FirmwareError
from hypersonic.firmware.kernel import registers
from hypersonic.firmware.kernel.vitis_xml import COMPUTE_UNIT_RANGE
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.firmware.xclbin.images import kernel_images
from hypersonic.sim.card.direct import Simulation, SimulationError
from hypersonic.sim.xrt_bridge.memory import DeviceMemory, RefusedError
from hypersonic.sim.xrt_bridge.wire import Call, Fields, read_call, send_answer

#: clocks that a kernel runs each time XRT reads its control register
POLL_CLOCKS = 64
#: ap_clk's period, for XRT's device timestamp
_CLOCK_NS = 3.333
#: the most bytes of one read from memory; XRT reads at most 8 MiB at once
MAX_BUFFER_BYTES = 16 << 20
_WORD_BYTES = 4
#: XRT fetches the messages every second; the oldest beyond this number are dropped
_MAX_MESSAGES = 100

_LOG = logging.getLogger(__name__)


class EmulatedCard:
    """The compute units of one xclbin and their memory, which answer XRT's calls. A context manager, for one thread.

    The public methods that take and return Fields each implement one call of XRT's emulation protocol; field numbers are
    the protocol's. They raise RefusedError for a wrong request and SimulationError for a kernel that does not answer. closed
    is True after the host has closed the card.
    """

    def __init__(self, xclbin: Xclbin, simulators: Mapping[str, Path]) -> None:
        """Create a Card.

        Args:
            simulators: the file with each kernel's simulator, by the kernel's name.

        Raises:
            SimulationError: If one is not a simulator.
        """
        self.memory = DeviceMemory(xclbin.group_memories)
        self.closed = False
        self._messages: deque[str] = deque(maxlen=_MAX_MESSAGES)
        self._clocks = 0
        self._freed: list[NDArray[np.uint8]] = []
        with ExitStack() as opened:
            self._units = {
                unit.base_address: opened.enter_context(Simulation(simulators[unit.kernel], 0, view=self.memory.view))
                for unit in xclbin.compute_units
            }
            self._closing = opened.pop_all()

    def __enter__(self) -> EmulatedCard:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._closing.close()

    def answer(self, call: Call) -> Fields:
        """Execute a call and return the answer's fields. It never raises: a host that gets no answer waits for ever."""
        function, refusal = _CALLS.get(call.number, (_unknown, {}))
        try:
            return function(self, call.fields)
        except (RefusedError, SimulationError) as error:
            self._say(f"call {call.number} is refused: {error}")
            return refusal

    def _say(self, text: str) -> None:
        """Send a text to the host, which prints it, and to this process's own log."""
        self._messages.append(f"[hypersonic] {text}\n")
        _LOG.warning("%s", text)

    def set_environment(self, _fields: Fields) -> Fields:
        """Accept XRT's environment variables; they have no effect here."""
        return {1: 1}

    def allocate(self, fields: Fields) -> Fields:
        """Allocate a buffer object: device address, size in bytes."""
        self.memory.allocate(_number(fields, 1), _number(fields, 2))
        return {1: 1, 2: b""}

    def free(self, fields: Fields) -> Fields:
        """Free the buffer object at an address.

        A kernel may still have a burst to it in flight, so its bytes are kept until no unit has a run in flight.
        """
        self._freed.append(self.memory.free(_number(fields, 1)))
        if all(unit.read(registers.CONTROL) & registers.AP_IDLE for unit in self._units.values()):
            self._freed.clear()
        return {1: 1}

    def copy_to_device(self, fields: Fields) -> Fields:
        """Write a piece of a buffer object: its address plus an offset, and the bytes. Answers the number of bytes."""
        return {1: self._store(_number(fields, 3) + _number(fields, 6), _bytes(fields, 4))}

    def copy_from_device(self, fields: Fields) -> Fields:
        """Read a piece of a buffer object: its address plus an offset, and the size in bytes."""
        data = self._load(_number(fields, 4) + _number(fields, 6), _number(fields, 5))
        return {1: len(data), 2: data}

    def write_memory(self, fields: Fields) -> Fields:
        """Write bytes at a device address."""
        self._store(_number(fields, 2), _bytes(fields, 4))
        return {1: 1}

    def read_memory(self, fields: Fields) -> Fields:
        """Read a number of bytes at a device address."""
        return {1: 1, 2: self._load(_number(fields, 2), _number(fields, 3))}

    def write_kernel(self, fields: Fields) -> Fields:
        """Write consecutive registers of 32 bits at an address of a compute unit."""
        return self._write_registers(_number(fields, 2), _bytes(fields, 4))

    def read_kernel(self, fields: Fields) -> Fields:
        """Read consecutive registers at an address of a compute unit; the control register runs its clock."""
        return self._read_registers(_number(fields, 2), _number(fields, 3))

    def write_register(self, fields: Fields) -> Fields:
        """Write consecutive registers at a compute unit's base address plus an offset."""
        return self._write_registers(_number(fields, 1) + _number(fields, 2), _bytes(fields, 3))

    def read_register(self, fields: Fields) -> Fields:
        """Read consecutive registers at a base address plus an offset; the control register runs the unit's clock."""
        return self._read_registers(_number(fields, 1) + _number(fields, 2), _number(fields, 3))

    def timestamp(self, _fields: Fields) -> Fields:
        """Answer the simulated time in nanoseconds."""
        return {1: int(self._clocks * _CLOCK_NS)}

    def messages(self, _fields: Fields) -> Fields:
        """Answer the messages since the last call as one text, and drop them."""
        text = "".join(self._messages)
        self._messages.clear()
        return {1: text.encode()} if text else {}

    def close(self, _fields: Fields) -> Fields:
        """Mark the card as closed, which ends serve()."""
        self.closed = True
        return {1: 1}

    def _store(self, address: int, data: bytes) -> int:
        self.memory.range(address, len(data))[:] = np.frombuffer(data, dtype=np.uint8)
        return len(data)

    def _load(self, address: int, size_bytes: int) -> bytes:
        if size_bytes > MAX_BUFFER_BYTES:
            raise RefusedError(f"{size_bytes} bytes at once, expected at most {MAX_BUFFER_BYTES}")
        return self.memory.range(address, size_bytes).tobytes()

    def _write_registers(self, address: int, data: bytes) -> Fields:
        unit, offset = self._unit(address, len(data))
        for index in range(0, len(data), _WORD_BYTES):
            unit.write(offset + index, int.from_bytes(data[index : index + _WORD_BYTES], "little"))
        return {1: 1}

    def _read_registers(self, address: int, size_bytes: int) -> Fields:
        unit, offset = self._unit(address, size_bytes)
        if offset == registers.CONTROL:
            self._run(unit)
        words = [unit.read(offset + index) for index in range(0, size_bytes, _WORD_BYTES)]
        return {1: 1, 2: np.array(words, dtype="<u4").tobytes()}

    def _run(self, unit: Simulation) -> None:
        """Run the unit for POLL_CLOCKS and report a bus rule that it broke in them."""
        self._clocks += POLL_CLOCKS
        try:
            unit.advance(POLL_CLOCKS)
        except SimulationError as error:
            unit.faults.clear()
            self._say(str(error))

    def _unit(self, address: int, size_bytes: int) -> tuple[Simulation, int]:
        """The compute unit at an address, and the offset of the register in it. Raises RefusedError if there is none."""
        base = address - address % COMPUTE_UNIT_RANGE
        offset = address - base
        if (
            base not in self._units
            or offset % _WORD_BYTES
            or size_bytes % _WORD_BYTES
            or offset + size_bytes > registers.ADDRESS_RANGE
        ):
            raise RefusedError(f"{size_bytes} bytes at {address:#x} are not registers of a compute unit")
        return self._units[base], offset


def _number(fields: Fields, number: int) -> int:
    value = fields.get(number, 0)
    if not isinstance(value, int):
        raise RefusedError(f"field {number} is bytes, expected a number")
    return value


def _bytes(fields: Fields, number: int) -> bytes:
    value = fields.get(number, b"")
    if not isinstance(value, bytes):
        raise RefusedError(f"field {number} is a number, expected bytes")
    return value


def _unknown(_card: EmulatedCard, _fields: Fields) -> Fields:
    raise RefusedError(f"this card knows the calls {', '.join(map(str, sorted(_CALLS)))}")


_NO: Fields = {1: 0}
_NO_DATA: Fields = {1: 0, 2: b""}
#: XRT's call numbers -> the method that implements the call, and the answer that refuses it
_CALLS: dict[int, tuple[Callable[[EmulatedCard, Fields], Fields], Fields]] = {
    1: (EmulatedCard.close, _NO),
    4: (EmulatedCard.allocate, _NO_DATA),
    5: (EmulatedCard.free, _NO),
    6: (EmulatedCard.copy_to_device, _NO),
    7: (EmulatedCard.copy_from_device, _NO_DATA),
    8: (EmulatedCard.write_memory, _NO),
    9: (EmulatedCard.write_kernel, _NO),
    10: (EmulatedCard.read_memory, _NO_DATA),
    11: (EmulatedCard.read_kernel, _NO_DATA),
    17: (EmulatedCard.timestamp, _NO),
    19: (EmulatedCard.messages, {}),
    20: (EmulatedCard.set_environment, _NO),
    51: (EmulatedCard.write_register, _NO),
    52: (EmulatedCard.read_register, _NO_DATA),
}


def _load(xclbin: Xclbin) -> EmulatedCard:
    """Open the card. Raises OSError, SimulationError or XclbinError if BITSTREAM has no simulators for this machine."""
    images = kernel_images(xclbin)
    with tempfile.TemporaryDirectory(prefix="hypersonic_") as name:
        simulators = {kernel: Path(name) / f"{number}.so" for number, kernel in enumerate(images)}
        for kernel, image in images.items():
            simulators[kernel].write_bytes(image)
        return EmulatedCard(xclbin, simulators)


def serve(card: EmulatedCard, connection: socket.socket) -> None:
    """Answer calls until the host closes the card or the connection.

    Raises WireError for bytes that are not a call, and OSError when the connection breaks.
    """
    while not card.closed and (call := read_call(connection)) is not None:
        send_answer(connection, card.answer(call))


def connect(path: Path, timeout_s: float = 60.0) -> socket.socket:
    """Connect to XRT's socket, and wait for it: XRT starts this process before it listens.

    Raises OSError if it does not listen within timeout_s seconds.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return connection


def main(argv: Sequence[str]) -> int:
    """Run the device process; simulate.sh calls it. argv is the xclbin and XRT's socket.

    Without a socket, only check that the xclbin can be loaded. Returns the exit status, 0 or 1.
    """
    logging.basicConfig(format="xrt_bridge: %(message)s")
    xclbin, *sockets = map(Path, argv)
    try:
        with _load(Xclbin.read(xclbin)) as card:
            for path in sockets:
                with connect(path) as connection:
                    serve(card, connection)
    except (FirmwareError, OSError, ValueError, SimulationError) as error:
        _LOG.error("%s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
