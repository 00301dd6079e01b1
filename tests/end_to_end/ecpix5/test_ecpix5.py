# SPDX-License-Identifier: Apache-2.0
"""The design of examples/ecpix5, Verilated without its PHY, answers UDP frames with the integers of csim."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.ecpix5 import build, talk
from hypersonic.hls import verilator
from tests.support.environments import environment

pytestmark = pytest.mark.whole(
    "examples/ecpix5", "firmware/kernel", "firmware/rtl", "hls/da", "hls/rtl/axis", "hls/zoo/jets_hgq"
)

REQUIREMENTS = Path(build.__file__).with_name("requirements.txt")
HERE = Path(__file__).parent
MAC, PEER_MAC = bytes.fromhex("10e2d5000000"), bytes.fromhex("020000000001")
IP, PEER_IP = (bytes(map(int, text.split("."))) for text in (talk.MAP["address"], "192.168.1.100"))
PORT = talk.MAP["port"]
IPV4, ARP, UDP = b"\x08\x00", b"\x08\x06", 17


class Network:
    """The other end of the cable: a host that sends UDP and answers ARP."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.board_open.restype = ctypes.c_void_p
        self._board = ctypes.c_void_p(self._library.board_open())
        self.lost = 0

    def send(self, packet: bytes) -> None:
        self._send(IPV4, datagram(packet))

    def _send(self, kind: bytes, payload: bytes) -> None:
        frame = (MAC + PEER_MAC + kind + payload).ljust(60, b"\0")
        self._library.board_send(self._board, frame, len(frame))

    def receive(self) -> bytes | None:
        buffer = ctypes.create_string_buffer(2048)
        while size := self._library.board_receive(self._board, buffer, 200_000):
            frame = buffer.raw[:size]
            kind, payload = frame[12:14], frame[14:]
            if kind == ARP and payload[6:8] == b"\x00\x01" and payload[24:28] == PEER_IP:  # who has PEER_IP?
                self._send(ARP, payload[:6] + b"\x00\x02" + PEER_MAC + PEER_IP + payload[8:18])
            elif kind == IPV4 and payload[9] == UDP and (frame[:6], payload[16:20]) == (PEER_MAC, PEER_IP):
                assert checksum(payload[:20]) == 0
                source, to, length, _ = struct.unpack(">4H", payload[20:28])
                assert (source, to) == (PORT, PORT)
                return payload[28 : 20 + length]
        self.lost += 1
        return None

    def close(self) -> None:
        self._library.board_close(self._board)


class Silence:
    def send(self, packet: bytes) -> None:
        pass

    def receive(self) -> None:
        return None


def datagram(payload: bytes) -> bytes:
    """Return an IPv4 packet with a UDP datagram to the board."""
    udp = struct.pack(">4H", PORT, PORT, 8 + len(payload), 0) + payload
    header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, UDP, 0, PEER_IP, IP)
    return header[:10] + struct.pack(">H", checksum(header)) + header[12:] + udp


def checksum(header: bytes) -> int:
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    directory = tmp_path_factory.mktemp("ecpix5")
    kernel = build.kernel_of(directory)
    python = environment(REQUIREMENTS) / "bin" / "python"
    design = build.write_design(python, kernel, directory / "design", phy=False)
    library = verilator.shared_library(
        directory, sources=[*kernel.lint_waivers, *kernel.sources, design], top="top", harness=[HERE / "frames.cpp"],
        output="libboard.so",
    )  # fmt: skip
    network = Network(library)
    yield network
    network.close()


def test_rows_sent_as_udp_frames_come_back_with_the_integers_of_csim(network: Network, tmp_path: Path) -> None:
    board = talk.Board(network)
    for rows in (1, 37, 300):
        x, y = talk.expected(tmp_path / "project", rows)
        got, clocks = board.run(x.tobytes(), x.size // rows, y.size // rows)
        assert got == y.tobytes()
        assert clocks > rows
    assert network.lost == 0


@pytest.mark.hours
@pytest.mark.timeout(7200)  # nextpnr alone takes a quarter of an hour of a processor
def test_the_bitstream_is_built_and_the_router_meets_every_clock(tmp_path: Path) -> None:
    kernel = build.kernel_of(tmp_path)
    build.write_design(environment(REQUIREMENTS) / "bin" / "python", kernel, tmp_path / "design")
    report = build.bitstream(kernel, tmp_path / "design")
    assert all(clock["achieved"] >= clock["constraint"] for clock in report["fmax"].values())
    assert (tmp_path / "design" / "top.bit").stat().st_size > 100_000


def test_a_board_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(TimeoutError, match=r"does not answer at 192\.168\.1\.50, port 1234"):
        talk.Board(Silence()).read(0)
