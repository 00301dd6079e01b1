# SPDX-License-Identifier: Apache-2.0
"""Bulk benches for stream modules: beats in and out of a Verilated module, a hundred times faster than with cocotb.

One library has every parameter set of a bench side by side, because starting Verilator and g++ takes longer than compiling a
small module. Each instance is driven alone, and has a clock only then and in a reset. The RTL's assertions are on, and
registers and memories start with random bits. A test gives its beats as Python integers and compares the output with its own
model.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol

from hypersonic.firmware.netlist import netlist
from hypersonic.hls import verilator
from hypersonic.hls.cache import cached
from hypersonic.hls.core import AXIS_RTL, RF_RTL
from hypersonic.hls.rf.modules import is_package, sources_of

_HARNESS = Path(__file__).with_name("stream_harness.cpp")
_LIBRARY = "libduts.so"
#: the warnings about style that a netlist gets
_QUIET = Path(__file__).with_name("netlist.vlt")
_INPUTS = 2
_STATUS = {
    2: "no beat came out for 100000 clocks, or not every beat was taken",
    3: "a beat changed, or went away, before it was taken",
    4: "there is an output beat too many",
}


class StreamError(AssertionError):
    """A module broke a rule of its streams or gave a wrong beat; the text says which, and after how many beats."""


class Beat(NamedTuple):
    """One transfer of a stream: the bits of tdata, with element 0 lowest, and tlast."""

    data: int
    last: bool = False


def pack(elements: Sequence[int], width: int) -> int:
    """Pack the low `width` bits of each element into one integer, element 0 lowest."""
    mask = (1 << width) - 1
    return sum((element & mask) << i * width for i, element in enumerate(elements))


def unpack(data: int, lanes: int, width: int, signed: bool) -> list[int]:
    """Return the `lanes` elements of tdata as raw integers, sign-extended if `signed`."""
    raw = [data >> i * width & ((1 << width) - 1) for i in range(lanes)]
    return [value - (1 << width) if signed and value >> (width - 1) else value for value in raw]


def beats_of(row: Sequence[int], lanes: int, width: int) -> list[Beat]:
    """Return a row's beats of `lanes` elements of `width` bits each, with tlast on the last beat."""
    return [Beat(pack(row[i : i + lanes], width), i + lanes >= len(row)) for i in range(0, len(row), lanes)]


class Verilog(str):
    """A parameter's value as SystemVerilog text, for values that a Python int or str does not express."""

    __slots__ = ()


def sized(value: int, bits: int) -> Verilog:
    """Return a signed SystemVerilog literal of `bits` bits."""
    return Verilog(f"{'-' if value < 0 else ''}{bits}'sd{abs(value)}")


@dataclass(frozen=True)
class Dut:
    """One instance of a module of hls/rtl, or of a module in the SystemVerilog text `source`.

    inputs maps the port prefix of each input stream, at most two, to the bits of its tdata; output is the bits of the
    output's tdata. files maps the names that $readmemh reads to their text. uses names the modules of hls/rtl that `source`
    instantiates. sources are files of modules that are not in hls/rtl.
    """

    module: str
    parameters: Mapping[str, int | str]
    inputs: Mapping[str, int]
    output: int
    files: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    uses: tuple[str, ...] = ()
    output_prefix: str = "m_axis"
    sources: tuple[Path, ...] = ()


class _Run(ctypes.Structure):
    """struct Run of stream_harness.cpp."""

    _fields_ = [
        ("beats", ctypes.c_uint64 * _INPUTS),
        ("results", ctypes.c_uint64),
        ("drain", ctypes.c_uint64),
        ("clock_limit", ctypes.c_uint64),
        ("seed", ctypes.c_uint64),
        ("select", ctypes.c_uint32),
        ("stall_in", ctypes.c_uint32),
        ("stall_out", ctypes.c_uint32),
    ]


class _Beats(ctypes.Structure):
    """struct Beats of stream_harness.cpp."""

    _fields_ = [
        ("data", ctypes.c_char_p * _INPUTS),
        ("last", ctypes.c_char_p * _INPUTS),
        ("results", ctypes.c_char_p),
        ("results_last", ctypes.c_char_p),
        ("results_clock", ctypes.POINTER(ctypes.c_uint64)),
    ]


@dataclass(frozen=True)
class Stalls:
    """In how many of 256 clocks, on average, a source offers nothing (stall_in) and the sink takes nothing (stall_out)."""

    stall_in: int = 0
    stall_out: int = 0
    seed: int = 1


class Results(NamedTuple):
    """The output beats of a run, the clock at which each was taken, and the length of the run in clocks."""

    beats: list[Beat]
    taken_at: list[int]
    clocks: int


class Case(Protocol):
    """One parameter set of a bench, with the module's model."""

    def dut(self) -> Dut:
        """Return the instance."""

    def traffic(self, rows: int, seed: int) -> tuple[list[list[Beat]], list[Beat]]:
        """Return the beats of each input for some random rows, and the expected beats of the output."""


class StreamBench:
    """Several instances in one simulation. A context manager, or closed by close().

    optimisation is g++'s option for the Verilated code; seed is that of the random bits in registers and memories. With
    `gates`, the instances are simulated as a netlist that Yosys makes of them. Raises ToolError when a tool fails.
    """

    def __init__(self, duts: Sequence[Dut], optimisation: str = "-O0", seed: int = 1, *, gates: bool = False) -> None:
        self.duts = list(duts)
        self._gates = gates
        self._x_bytes = 4 * max(_words(bits) for dut in duts for bits in dut.inputs.values())
        self._y_bytes = 4 * max(_words(dut.output) for dut in duts)
        self._directory = self._compile(optimisation)
        self._library = ctypes.CDLL(str(self._directory / _LIBRARY))
        self._library.stream_bench_open.restype = ctypes.c_void_p
        for name in ("close", "reset", "run"):
            getattr(self._library, f"stream_bench_{name}").argtypes = None
        here = Path.cwd()
        os.chdir(self._directory)  # where $readmemh finds its files
        try:
            self._simulation = ctypes.c_void_p(self._library.stream_bench_open(ctypes.c_int(seed)))
        finally:
            os.chdir(here)

    def run(
        self,
        dut: Dut,
        *inputs: Sequence[Beat],
        results: int,
        stalls: Stalls = Stalls(),
        clock_limit: int = 0,
        drain: int = 40,
    ) -> Results:
        """Send every beat and take `results` output beats; for `drain` more clocks, no other may be given.

        A clock_limit above 0 ends the run after that many clocks, with beats in flight. Raises StreamError for a broken stream
        rule, a beat too many, and when no beat moves for 100 000 clocks.
        """
        data = [b"".join(beat.data.to_bytes(self._x_bytes, "little") for beat in beats) for beats in inputs]
        last = [bytes(beat.last for beat in beats) for beats in inputs]
        missing = _INPUTS - len(inputs)
        y = ctypes.create_string_buffer(self._y_bytes * results + 1)
        y_last = ctypes.create_string_buffer(results + 1)
        y_clock = (ctypes.c_uint64 * (results + 1))()
        run = _Run(
            (ctypes.c_uint64 * _INPUTS)(*map(len, inputs)), results, drain, clock_limit, stalls.seed,
            self.duts.index(dut), stalls.stall_in, stalls.stall_out,
        )  # fmt: skip
        beats = _Beats(
            (ctypes.c_char_p * _INPUTS)(*data, *[b""] * missing), (ctypes.c_char_p * _INPUTS)(*last, *[b""] * missing),
            ctypes.cast(y, ctypes.c_char_p), ctypes.cast(y_last, ctypes.c_char_p), y_clock,
        )  # fmt: skip
        got, clocks = ctypes.c_uint64(), ctypes.c_uint64()
        status = self._library.stream_bench_run(
            self._simulation, ctypes.byref(run), ctypes.byref(beats), ctypes.byref(got), ctypes.byref(clocks)
        )
        if status in _STATUS:
            raise StreamError(f"{dut.module} {dict(dut.parameters)}: {_STATUS[status]}, {got.value} beats were out")
        y_raw, y_last_raw = y.raw, y_last.raw
        words = [y_raw[i * self._y_bytes : (i + 1) * self._y_bytes] for i in range(got.value)]
        answers = [Beat(int.from_bytes(word, "little"), y_last_raw[i] != 0) for i, word in enumerate(words)]
        return Results(answers, list(y_clock[: got.value]), clocks.value)

    def check(self, case: Case, rows: int = 8, reset_after: Sequence[int] = (1, 3, 7, 16, 40)) -> None:
        """Run rows under several patterns of stalls, and then once for each number of clocks in reset_after with a reset
        after that many clocks. Raises StreamError for a wrong beat or a broken stream rule."""
        for seed, stalls in enumerate([(0, 0), (200, 0), (0, 200), (100, 100), (20, 20)]):
            self._compare(case, rows, Stalls(*stalls, seed=seed), seed)
        for clocks in reset_after:
            inputs, expected = case.traffic(rows, clocks)
            self.run(case.dut(), *inputs, results=len(expected) + 1, stalls=Stalls(20, 60), clock_limit=clocks)
            self.reset()
            self._compare(case, 2, Stalls(), clocks + 1)

    def taken_at(self, case: Case, rows: int, seed: int = 1) -> list[int]:
        """Run rows without stalls. Returns the clock at which each output beat was taken. Raises StreamError as check does."""
        return self._compare(case, rows, Stalls(), seed).taken_at

    def _compare(self, case: Case, rows: int, stalls: Stalls, seed: int) -> Results:
        dut, (inputs, expected) = case.dut(), case.traffic(rows, seed)
        results = self.run(dut, *inputs, results=len(expected), stalls=stalls)
        got = results.beats
        wrong = [i for i, (one, other) in enumerate(zip(got, expected, strict=True)) if one != other]
        if wrong:
            at = wrong[0]
            raise StreamError(
                f"{dut.module} {dict(dut.parameters)}, {stalls}: {len(wrong)} of {len(expected)} beats differ, the first is "
                f"{at}: {got[at].data:x} last {got[at].last}, expected {expected[at].data:x} last {expected[at].last}"
            )
        return results

    def reset(self, clocks: int = 1) -> None:
        """Hold every instance in reset for `clocks` clocks."""
        self._library.stream_bench_reset(self._simulation, ctypes.c_int(clocks))

    def close(self) -> None:
        """End the simulation. Does nothing if it has ended already."""
        if self._simulation:
            self._library.stream_bench_close(self._simulation)
            self._simulation = ctypes.c_void_p()

    def __enter__(self) -> StreamBench:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _compile(self, optimisation: str) -> Path:
        top = "".join(dict.fromkeys(dut.source for dut in self.duts)) + _top(self.duts, self._x_bytes * 8, self._y_bytes * 8)
        files = {name: text for dut in self.duts for name, text in dut.files.items()}

        def build(directory: Path) -> None:
            (directory / "duts.sv").write_text(_LINT + top)
            for name, text in files.items():
                (directory / name).write_text(text)
            words = f"-DX_WORDS={self._x_bytes // 4} -DY_WORDS={self._y_bytes // 4}"
            rtl = [*_sources(self.duts), directory / "duts.sv"]
            memories = [directory / name for name in files]
            sources = [_QUIET, netlist("duts", [*rtl, *memories])] if self._gates else [*_rtl_files(self.duts), rtl[-1]]
            _build(directory, words, optimisation, sources)
            (directory / "obj" / _LIBRARY).rename(directory / _LIBRARY)

        level = "gates" if self._gates else "rtl"
        parts: list[str | Path] = [level, optimisation, top, str(sorted(files.items())), _HARNESS, *_sources(self.duts)]
        return cached("stream_bench", parts, build)


def _sources(duts: Sequence[Dut]) -> list[Path]:
    """The files that the instances consist of."""
    modules = (module for dut in duts for module in (dut.uses if dut.source else (dut.module,)))
    return sorted({*sources_of(modules), *(source for dut in duts for source in dut.sources)})


def _rtl_files(duts: Sequence[Dut]) -> list[Path]:
    """Those of them that Verilator does not find by a module's name."""
    return [*filter(is_package, _sources(duts)), *(source for dut in duts for source in dut.sources)]


def _words(bits: int) -> int:
    """The 32-bit words of a port; at least three, so that Verilator declares it as an array whatever its width."""
    return max(3, -(-bits // 32))


def _build(directory: Path, words: str, optimisation: str, sources: Sequence[Path]) -> None:
    argv: list[str | Path] = [
        "-Wall", "--assert", "--top-module", "duts", "--prefix", "Vduts", "-o", _LIBRARY,
        "--x-initial", "unique", "--x-assign", "unique", "-y", AXIS_RTL, "-y", RF_RTL, "--output-split", "0",
        *dict.fromkeys(sources), _HARNESS,
    ]  # fmt: skip
    verilator.build_library(argv, directory, f"OPT_FAST={optimisation} OPT_SLOW={optimisation} OPT_GLOBAL=-O1", words.split())


def _top(duts: Sequence[Dut], x_bits: int, y_bits: int) -> str:
    """The text of the top module: the streams of the instance that `select` names, as wide as the widest."""
    body = "\n".join(_instance(dut, k, x_bits) for k, dut in enumerate(duts))
    cases = "\n".join(
        f"      {k}: begin s_tready = ready_{k}; m_tvalid = valid_{k}; m_tdata = {y_bits}'(data_{k}); m_tlast = last_{k}; end"
        for k in range(len(duts))
    )
    return _TOP.format(x=x_bits * _INPUTS - 1, y=y_bits - 1, body=body, cases=cases)


def _instance(dut: Dut, k: int, x_bits: int) -> str:
    parameters = ", ".join(f".{name}({_literal(value)})" for name, value in dut.parameters.items())
    ports = [
        f".{prefix}_tvalid(s_tvalid[{i}] && select == {k}), .{prefix}_tready(ready_{k}[{i}]), "
        f".{prefix}_tdata(s_tdata[{i * x_bits}+:{bits}]), .{prefix}_tlast(s_tlast[{i}])"
        for i, (prefix, bits) in enumerate(dut.inputs.items())
    ]
    m = dut.output_prefix
    ports.append(f".{m}_tvalid(valid_{k}), .{m}_tready(m_tready && select == {k}), .{m}_tdata(data_{k}), .{m}_tlast(last_{k})")
    open_inputs = "".join(f"  assign ready_{k}[{i}] = 1'b0;\n" for i in range(len(dut.inputs), _INPUTS))
    return (
        f"  logic [{_INPUTS - 1}:0] ready_{k};\n{open_inputs}"
        f"  logic valid_{k}, last_{k};\n  logic [{dut.output - 1}:0] data_{k};\n"
        f"  {dut.module} #({parameters}) u_{k} (.clk(clk && (select == {k} || !rst_n)), .rst_n(rst_n), {', '.join(ports)});"
    )


def _literal(value: int | str) -> str:
    return f'"{value}"' if isinstance(value, str) and not isinstance(value, Verilog) else str(value)


# data bits that a narrow instance does not use; a test's own modules, which are in the same file
_LINT = "/* verilator lint_off UNUSEDSIGNAL */\n/* verilator lint_off DECLFILENAME */\n"

_TOP = """\
module duts (
    input  logic clk, rst_n,
    input  logic [31:0] select,
    input  logic [1:0] s_tvalid,
    output logic [1:0] s_tready,
    input  logic [{x}:0] s_tdata,
    input  logic [1:0] s_tlast,
    output logic m_tvalid,
    input  logic m_tready,
    output logic [{y}:0] m_tdata,
    output logic m_tlast
);
{body}
  always_comb begin
    s_tready = '0;
    m_tvalid = 1'b0;
    m_tdata = '0;
    m_tlast = 1'b0;
    unique case (select)
{cases}
      default: ;
    endcase
  end
endmodule
"""
