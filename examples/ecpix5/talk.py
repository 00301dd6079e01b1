# SPDX-License-Identifier: Apache-2.0
"""Rows through the kernel on the board: writes them into its memory over UDP, starts it as XRT would, and reads the results.

`python -m examples.ecpix5.talk [ROWS]` compares every byte of the results with those of the model's C++ simulation.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hypersonic.firmware.kernel import registers

MAP = json.loads(Path(__file__).with_name("map.json").read_text())
MODEL = "jets_hgq"

#: an Etherbone packet of one record: magic, version 1, addresses and words of 4 bytes, padding (ohwr.org, Etherbone 1.0)
_HEADER = bytes.fromhex("4e6f104400000000")
_WORD = 4
#: words of memory in one packet, which fits into a frame and into LiteEth's buffer
_WORDS = 128
_POLLS = 1000


class Network(Protocol):
    """A way to the board for packets."""

    def send(self, packet: bytes) -> None:
        """Send a packet to the board."""

    def receive(self) -> bytes | None:
        """Return the board's next packet, or None if there is none in time."""


class Board:
    """The kernel and its memory behind a network."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def transfer(self, address: int, words: Sequence[int], reads: Sequence[int], tries: int = 3) -> tuple[int, ...]:
        """Write consecutive words, then read words. Only reads are answered, and LiteEth takes no packet that does both.

        Raises TimeoutError if there is no answer.
        """
        for _ in range(tries):
            if words:
                self._network.send(_packet(len(words), 0, address, words))
            self._network.send(_packet(0, len(reads), 0, reads))
            answer = self._network.receive()
            if answer is not None and len(answer) == len(_HEADER) + 8 + _WORD * len(reads):
                return struct.unpack_from(f">{len(reads)}I", answer, len(_HEADER) + 8)
        raise TimeoutError(f"the board does not answer at {MAP['address']}, port {MAP['port']}")

    def write(self, offset: int, value: int) -> None:
        """Write a register. A lost answer is not asked for again, as that would start a run twice."""
        self.transfer(MAP["control"] + offset, [value], [MAP["control"] + registers.VERSION], tries=1)

    def read(self, offset: int) -> int:
        """Read a register."""
        return self.transfer(0, [], [MAP["control"] + offset])[0]

    def put(self, address: int, data: bytes) -> None:
        """Write bytes to the memory, as many as whole words."""
        words = np.frombuffer(data, dtype="<u4").tolist()
        for first in range(0, len(words), _WORDS):
            to = MAP["memory"] + address + _WORD * first
            self.transfer(to, words[first : first + _WORDS], [to])

    def get(self, address: int, size: int) -> bytes:
        """Read bytes of the memory."""
        places = [MAP["memory"] + address + at for at in range(0, size, _WORD)]
        parts = [self.transfer(0, [], places[first : first + _WORDS]) for first in range(0, len(places), _WORDS)]
        data: bytes = np.array([word for part in parts for word in part], dtype="<u4").tobytes()
        return data[:size]

    def run(self, data: bytes, row_in_bytes: int, row_out_bytes: int) -> tuple[bytes, int]:
        """Compute whole rows, at most half a memory of them. Returns the results and the kernel's clocks."""
        rows, x, y = len(data) // row_in_bytes, 0, MAP["memory_bytes"] // 2
        self.put(x, data)
        for offset, value in ((registers.X, x), (registers.Y, y), (registers.ROWS, rows)):
            self.write(offset, value)
        self.write(registers.CONTROL, registers.AP_START)
        if not any(self.read(registers.CONTROL) & registers.AP_DONE for _ in range(_POLLS)):
            raise TimeoutError(f"the kernel is not done after {_POLLS} polls")
        clocks = self.read(registers.RUN_CYCLES)
        self.write(registers.CONTROL, registers.AP_CONTINUE)
        return self.get(y, rows * row_out_bytes), clocks


def _packet(writes: int, reads: int, base: int, words: Sequence[int]) -> bytes:
    return _HEADER + struct.pack(f">4B{1 + len(words)}I", 0, 0xF, writes, reads, base, *words)


class Udp:
    """The network of this computer. LiteEth answers to the port that it listens on, so this side has the same."""

    def __init__(self, timeout_s: float = 0.5) -> None:
        self._port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._port.bind(("", MAP["port"]))
        self._port.settimeout(timeout_s)

    def send(self, packet: bytes) -> None:
        """Send a packet to the board."""
        self._port.sendto(packet, (MAP["address"], MAP["port"]))

    def receive(self) -> bytes | None:
        """Return the board's next packet, or None if there is none in time."""
        try:
            return self._port.recv(2048)
        except TimeoutError:
            return None


def expected(directory: Path, rows: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Random rows in the kernel's wire format (rows, bytes), and the results of the model's C++ simulation."""
    from hypersonic.hls.build import build_project
    from hypersonic.hls.csim.compiled import Csim, compile_csim

    project, _ = build_project(MODEL, directory)
    (tensor,) = project.inputs.tensors
    x = np.random.default_rng(1).normal(0, 2, (rows, tensor.size)).astype(np.float32)
    raw = Csim(compile_csim(project), project).predict_raw(project.inputs.to_raw([x]))
    return project.inputs.encode([x]), project.outputs.encode(project.outputs.from_raw(raw))


def main(rows: int = 512) -> None:
    """Send rows to the board and compare the results."""
    x, y = expected(Path("build/ecpix5/project"), rows)
    begin = time.monotonic()
    got, clocks = Board(Udp()).run(x.tobytes(), x.size // rows, y.size // rows)
    if got != y.tobytes():
        raise SystemExit(f"the results of {rows} rows differ from the C++ simulation")
    print(f"{rows} rows equal the C++ simulation: {clocks} clocks in the kernel, {time.monotonic() - begin:.2f} s in all")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
