# SPDX-License-Identifier: Apache-2.0
"""RTL cores, Verilated and driven in bulk: raw rows in, raw rows out, at hundreds of thousands of clocks per second.

cocotb runs at ten thousand clocks per second, so it tests protocols; numbers are compared here. The same C++ drives one
core or several side by side in one library.
"""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.cache import cached
from hypersonic.hls.core import RTL, Core, Port, core_signals, declare
from hypersonic.hls.row import Row
from hypersonic.hls.rtl.size import size_of
from hypersonic.hls.spec import SpecMismatchError
from hypersonic.hls.verilator import build_key, shared_library
from hypersonic.hls.weight_stream import WEIGHT_BITS

_HARNESS = RTL / "core_harness.cpp"
_LIBRARY = "libcores.so"
_STATUS = {
    2: "nothing came out for {patience} clocks",
    3: "tlast did not travel with its row",
    4: "a result changed, or went away, before it was taken",
    5: "a result came out that no row went in for",
}


class SimulationError(RuntimeError):
    """The core broke a rule of its stream interface. The message says which one, at which row and clock."""


@dataclass(frozen=True)
class Stalls:
    """How often, of 256 clocks, the source offers nothing (stall_in) and the sink takes nothing (stall_out); 0: never."""

    stall_in: int = 0
    stall_out: int = 0
    seed: int = 1


class _Run(ctypes.Structure):
    """struct Run of core_harness.cpp."""

    _fields_ = [
        ("rows", ctypes.c_uint64),
        ("select", ctypes.c_uint32),
        ("beats_in", ctypes.c_uint32),
        ("beats_out", ctypes.c_uint32),
        ("stall_in", ctypes.c_uint32),
        ("stall_out", ctypes.c_uint32),
        ("seed", ctypes.c_uint64),
        ("clock_limit", ctypes.c_uint64),
        ("patience", ctypes.c_uint64),
        ("lanes_in", ctypes.c_void_p),
        ("lanes_out", ctypes.c_void_p),
        ("sizes_in", ctypes.c_void_p),
        ("sizes_out", ctypes.c_void_p),
    ]


class _WeightStream(ctypes.Structure):
    """struct WeightStream of core_harness.cpp."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("beats", ctypes.c_uint64),
        ("repeats", ctypes.c_uint32),
        ("select", ctypes.c_uint32),
    ]


#: weight streams of all cores of a library
_MAX_STREAMS = 64


def compile_cores(cores: Sequence[Core], optimisation: str = "-O1") -> Path:
    """The shared library of some cores side by side, Verilated; kept by content hash. Raises ToolError.

    Args:
        optimisation: g++'s level; -O1 simulates fastest, -O0 compiles fastest.
    """
    top = _top(cores)
    sources = list(dict.fromkeys(source for core in cores for source in core.sources))

    def build(directory: Path) -> None:
        file = directory / "cores.sv"
        file.write_text(top)
        flags = [optimisation, f"-DX_BITS={max(map(_x_bits, cores))}", f"-DY_BITS={max(map(_y_bits, cores))}"]
        flags.append(f"-DW_STREAMS={sum(len(core.weight_streams) for core in cores)}")
        built = shared_library(
            directory, sources=[*sources, file], top="cores", harness=[_HARNESS], output=_LIBRARY, prefix="Vcores",
            cflags=flags,
            size=size_of(f"core {', '.join(dict.fromkeys(core.name for core in cores))}", cores, sources),
        )  # fmt: skip
        built.rename(directory / _LIBRARY)

    return cached("rtl", [*build_key(), optimisation, top, _HARNESS, *sources], build) / _LIBRARY


def _x_bits(core: Core) -> int:
    return core.x.width


def _y_bits(core: Core) -> int:
    return core.y.width


def _sizes(port: Port) -> NDArray[np.uint32]:
    """Elements of each beat of a row, (port.beats,)."""
    if not port.lanes:
        return np.array([port.row.size], dtype=np.uint32)
    return np.repeat(np.array(port.lanes, dtype=np.uint32), port.tensor_beats)


def _lanes(row: Row) -> NDArray[np.int32]:
    """struct Lane of core_harness.cpp for each element of a row, (size, 2): its width, and whether it has a sign."""
    lanes = [(tensor.fixed.width, tensor.fixed.signed) for tensor in row.tensors]
    return np.repeat(np.array(lanes, dtype=np.int32), [tensor.size for tensor in row.tensors], axis=0)


class RtlCore:
    """One simulated core; used by one thread at a time, closed by close() or a with statement.

    Attributes:
        clocks: of the last run.

    Args:
        beside: the cores it shares a library with, itself among them (see compile_cores).
    """

    def __init__(self, core: Core, beside: Sequence[Core] = (), optimisation: str = "-O1") -> None:
        cores = list(beside) or [core]
        self.core = core
        self.clocks = 0
        self._select = cores.index(core)
        self._library = _load(compile_cores(cores, optimisation))
        with tempfile.TemporaryDirectory(prefix="hypersonic-memories-") as memories:
            for file in {file.resolve() for each in cores for file in each.memories}:
                (Path(memories) / file.name).symlink_to(file)
            weights = [np.fromfile(each.weights, dtype=np.uint8) if each.weights else np.empty(0, np.uint8) for each in cores]
            streams = _weight_streams(cores, weights)
            opened = self._library.hypersonic_core_open(memories.encode(), streams, len(streams))
            self._simulation, self._weights = ctypes.c_void_p(opened), weights  # kept alive: the simulation reads them

    def predict_raw(
        self,
        x_raw: NDArray[np.int64],
        stalls: Stalls = Stalls(),
        clock_limit: int = 0,
    ) -> NDArray[np.int64]:
        """Compute rows of raw numbers.

        Args:
            x_raw: (rows, inputs.size) int64 -> (rows, outputs.size) int64, as the core's registers hold them, tensor by tensor.
            clock_limit: stop there with rows still inside and return those that came out; call reset() before the next run.

        Raises:
            SpecMismatchError: For a wrong shape.
            SimulationError: When the core breaks a rule of its streams.
        """
        x = np.ascontiguousarray(x_raw, dtype=np.int64)
        source, sink = self.core.inputs, self.core.outputs
        if x.ndim != 2 or x.shape[1] != source.size:
            raise SpecMismatchError(f"core {self.core.name!r}: rows have shape {x.shape}, expected (rows, {source.size})")
        y = np.zeros((len(x), sink.size), dtype=np.int64)
        ways = (_lanes(source), _lanes(sink), _sizes(self.core.x), _sizes(self.core.y))
        run = _Run(
            len(x), self._select, self.core.x.beats, self.core.y.beats, stalls.stall_in, stalls.stall_out, stalls.seed,
            clock_limit, self._patience(), *(way.ctypes.data for way in ways),
        )  # fmt: skip
        return y[: self._run(run, x, y)]

    def _patience(self) -> int:
        return 100_000 + 8 * (self.core.latency_cycles + self.core.ii)

    def _run(self, run: _Run, x: NDArray[np.int64], y: NDArray[np.int64]) -> int:
        rows, clocks = ctypes.c_uint64(), ctypes.c_uint64()
        status = self._library.hypersonic_core_run(
            self._simulation, ctypes.byref(run), x.ctypes.data, y.ctypes.data, ctypes.byref(rows), ctypes.byref(clocks)
        )
        self.clocks = clocks.value
        if status in _STATUS:
            broken = _STATUS[status].format(patience=run.patience)
            raise SimulationError(f"core {self.core.name!r}: {broken}, at row {rows.value}, clock {clocks.value}")
        return rows.value

    def reset(self) -> None:
        """Hold rst_n low for four clocks: every row inside is dropped. Weights are loaded again."""
        self._library.hypersonic_core_reset(self._simulation)

    def close(self) -> None:
        """End the simulation. Safe to call twice."""
        if self._simulation:
            self._library.hypersonic_core_close(self._simulation)
            self._simulation = ctypes.c_void_p()

    def __enter__(self) -> RtlCore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _load(file: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(file))
    pointer = ctypes.c_void_p
    library.hypersonic_core_open.argtypes = [ctypes.c_char_p, ctypes.POINTER(_WeightStream), ctypes.c_uint32]
    library.hypersonic_core_open.restype = pointer
    library.hypersonic_core_close.argtypes = [pointer]
    library.hypersonic_core_close.restype = None
    library.hypersonic_core_reset.argtypes = [pointer]
    library.hypersonic_core_reset.restype = None
    library.hypersonic_core_run.argtypes = [pointer] * 6
    return library


def _weight_streams(cores: Sequence[Core], weights: Sequence[NDArray[np.uint8]]) -> ctypes.Array[_WeightStream]:
    """Cut each core's weights into its streams.

    Args:
        weights: of each core its file's bytes.

    Raises:
        SpecMismatchError: For a file shorter than its streams.
    """
    size, streams = WEIGHT_BITS // 8, list[_WeightStream]()
    for select, (core, data) in enumerate(zip(cores, weights, strict=True)):
        if len(data) < core.weight_beats * size:
            raise SpecMismatchError(f"{core.weights} has {len(data)} bytes, expected {core.weight_beats * size}")
        streams += [
            _WeightStream(data.ctypes.data + stream.first * size, stream.beats, stream.repeats, select)
            for stream in core.weight_streams
        ]
    return (_WeightStream * len(streams))(*streams)


def _top(cores: Sequence[Core]) -> str:
    """A module with one core's ports, as wide as the widest, the weight streams of all, concatenated, and `select`."""
    streams = sum(len(core.weight_streams) for core in cores)
    if streams > _MAX_STREAMS:
        raise SpecMismatchError(f"the cores have {streams} weight streams, expected at most {_MAX_STREAMS}")
    x_bits, y_bits = max(map(_x_bits, cores)), max(map(_y_bits, cores))
    firsts = accumulate((len(core.weight_streams) for core in cores[:-1]), initial=0)
    bodies = [_body(core, k, first) for k, (core, first) in enumerate(zip(cores, firsts, strict=True))]
    cases = "\n".join(_CASE.format(k=k, width=y_bits) for k in range(len(cores)))
    ports = declare(signal for signal in core_signals(x_bits, y_bits, streams) if signal.name not in ("clk", "rst_n"))
    return _TOP.format(ports=ports, bodies="\n".join(bodies), cases=cases, first=f"{y_bits}'(data_0)")


def _body(core: Core, k: int, first: int) -> str:
    """Core number k, and the wires of its outputs.

    Args:
        first: which of all weight streams is its first.
    """
    end = first + len(core.weight_streams)
    wires = {
        "s_axis_w_tvalid": f"s_axis_w_tvalid[{end - 1}:{first}]", "s_axis_w_tready": f"s_axis_w_tready[{end - 1}:{first}]",
        "s_axis_w_tdata": f"s_axis_w_tdata[{end * WEIGHT_BITS - 1}:{first * WEIGHT_BITS}]",
        "s_axis_x_tvalid": f"s_axis_x_tvalid && select == {k}", "s_axis_x_tready": f"ready_{k}",
        "s_axis_x_tdata": f"s_axis_x_tdata[{_x_bits(core)}-1:0]",
        "m_axis_y_tready": f"m_axis_y_tready && select == {k}", "m_axis_y_tvalid": f"valid_{k}",
        "m_axis_y_tdata": f"data_{k}", "m_axis_y_tlast": f"last_{k}",
    }  # fmt: skip
    joined = [f".{signal.name}({wires.get(signal.name, signal.name)})" for signal in core.signals]
    streams = len(joined) - 8  # what is left in front of rows and results: clock, reset and weights
    lines = [
        joined[:2],
        *([joined[2:streams]] if streams > 2 else []),
        *(joined[at : at + 2] for at in range(streams, len(joined), 2)),
    ]
    connections = ",\n".join(f"      {', '.join(line)}" for line in lines)
    return _INSTANCE.format(k=k, top=core.top, y=_y_bits(core), connections=connections)


_TOP = """\
`default_nettype none
/* verilator lint_off UNUSEDSIGNAL */ // a narrow core beside a wide one leaves data bits alone
module cores (
    input  logic clk, rst_n,
    input  logic [31:0] select,
{ports}
);
{bodies}
  always_comb begin
    s_axis_x_tready = 1'b0;
    m_axis_y_tvalid = 1'b0;
    m_axis_y_tdata = {first};
    m_axis_y_tlast = 1'b0;
    unique case (select)
{cases}
      default: ;
    endcase
  end
endmodule
`default_nettype wire
"""

_INSTANCE = """\
  logic ready_{k}, valid_{k}, last_{k};
  logic [{y}-1:0] data_{k};
  {top} u_{k} (
{connections}
  );"""

_CASE = """\
      {k}: begin
        s_axis_x_tready = ready_{k};
        m_axis_y_tvalid = valid_{k};
        m_axis_y_tdata = {width}'(data_{k});
        m_axis_y_tlast = last_{k};
      end"""
