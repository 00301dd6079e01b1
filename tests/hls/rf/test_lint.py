# SPDX-License-Identifier: Apache-2.0
"""`verilator -Wall` says nothing of an rf core: each module at the ends of its parameters, and whole cores of drawn layers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from hypersonic.hls.core import AXIS_RTL, RF_RTL
from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.fixed import Constants, FixedPoint
from hypersonic.hls.network.base import Network, Tensor
from hypersonic.hls.network.evaluate import evaluate
from hypersonic.hls.network.layers.map import Map, MapFunction
from hypersonic.hls.network.layers.softmax import Softmax, SoftmaxKind
from hypersonic.hls.rf.plan import plan
from hypersonic.hls.rtl.simulate import RtlCore, Stalls
from hypersonic.hls.verilator import lint
from tests.hls.rf.golden import random_rows
from tests.hls.rf.lint_networks import clean, fixed_point, network, read, single

Parameters = dict[str, int]
Draw = Callable[["Drawn"], Parameters]

RTL = (AXIS_RTL, RF_RTL)
PACKAGES = [file for folder in RTL for file in folder.glob("*_pkg.sv")]
WIDTHS = (1, 2, 3, 8, 17, 33, 64)
NARROW = WIDTHS[:-1]


class Drawn:
    """Values of parameters, the ends of their ranges most of all."""

    def __init__(self, seed: Sequence[int]) -> None:
        self.rng = np.random.default_rng(seed)

    def of(self, *values: int) -> int:
        return int(self.rng.choice(values))

    def bit(self) -> int:
        return self.of(0, 1)

    def split(self, name: str, part: str, *values: int) -> Parameters:
        """A number and a divisor of it."""
        whole = self.of(*values)
        return {name: whole, part: self.of(*(d for d in range(1, whole + 1) if whole % d == 0))}

    def result(self) -> Parameters:
        shift = self.of(0, 1, 2, 8, -1, -5, 40, 130, -60)
        modes = {"ROUNDING": self.of(*range(7)), "OVERFLOW": self.of(*range(4))}
        return {"RESULT_SHIFT": shift, "Y_WIDTH": self.of(*WIDTHS), "Y_SIGNED": self.bit(), **modes}

    def product(self) -> Parameters:
        x = {"X_WIDTH": self.of(*NARROW), "X_SIGNED": self.bit(), "W_WIDTH": self.of(1, 2, 8, 17)}
        accum = {"ACC_WIDTH": self.of(1, 2, 8, 24, 60), "ACC_SIGNED": self.bit()}
        shift = {"PRODUCT_SHIFT": self.of(0, 1, 5, -3, 40), "PRODUCT_ROUNDING": self.bit()}
        return {**x, **accum, **shift, **self.result()}

    def matrix(self) -> Parameters:
        return {**self.split("N_IN", "P", 1, 2, 6), **self.split("N_OUT", "Q", 1, 2, 6), **self.product()}

    def matrices(self) -> Parameters:
        return {**self.matrix(), "MATRICES": self.of(1, 2, 5), "BIASES": self.of(1, 2, 5)}

    def pool(self) -> Parameters:
        x = {"OP": self.bit(), "LANES": self.of(1, 2), "CHANNEL_BEATS": self.of(1, 2, 3), "X_WIDTH": self.of(*NARROW)}
        cut = {"X_SIGNED": self.bit(), "X_SHIFT": self.of(0, 1, -2, 5), "X_ROUNDING": self.bit()}
        return {**x, **cut, "ACC_WIDTH": self.of(1, 2, 8, 30), "ACC_SIGNED": self.bit(), **self.result()}

    def image(self) -> Parameters:
        kernel, stride, size, pad = (1, 2, 3), (1, 2), (3, 4, 7), (0, 1)
        sizes: Parameters = {}
        for axis, side in (("H", "TOP"), ("W", "LEFT")):
            k, s, n = self.of(*kernel), self.of(*stride), self.of(*size)
            p = min(self.of(*pad), k - 1)
            sizes |= {f"K_{axis}": k, f"S_{axis}": s, axis: n, f"PAD_{side}": p, f"OUT_{axis}": (n + p - k) // s + 1}
        return sizes

    def quantiser(self) -> Parameters:
        x, left = self.of(*NARROW), self.of(0, 1, 8)
        return {
            "LANES": self.of(1, 2, 3), "X_WIDTH": x, "X_SIGNED": self.bit(), "LEFT": left, "SATURATE": self.bit(),
            "V_WIDTH": x + left + self.of(2, 3, 9), "PERIOD": self.of(1, 2, 5), **self.result(),
        }  # fmt: skip

    def recurrent(self) -> Parameters:
        p, lanes = ((1, 1), (6, 1), (1, 6), (2, 6), (6, 2))[self.of(*range(5))]
        sizes = {"GRU": self.bit(), "N_SEQUENCE": self.of(1, 2, 5), "N_STATE": self.of(6, 12), "P": p, "LANES": lanes}
        product = {"W_WIDTH": self.of(1, 2, 8), "PRODUCT_SHIFT": self.of(0, 1, 5, -3), "PRODUCT_ROUNDING": self.bit()}
        types: Parameters = {"SEQUENCES": self.bit()}
        for prefix, cast in (("ACC", "ACC_"), ("Y", "")):
            types |= {
                f"{prefix}_WIDTH": self.of(2, 3, 8, 17, 24),
                f"{prefix}_SIGNED": self.bit(),
                f"{prefix}_FRACTION": self.of(0, 1, 9),
            }
            types |= {f"{cast}ROUNDING": self.of(*range(7)), f"{cast}OVERFLOW": self.of(*range(4))}
        for table in ("GATE", "ACT"):
            relu = self.of(0, 0, 1)
            types |= {f"{table}_PASS": relu, f"{table}_SIZE": 1 if relu else self.of(16, 100), f"{table}_SPAN": self.of(3, 4)}
        return {**sizes, **product, **types}

    def map(self) -> Parameters:
        x = {"LANES": self.of(1, 2, 3), "X_WIDTH": self.of(*WIDTHS), "X_SIGNED": self.bit(), "PERIOD": self.of(1, 2, 3)}
        constants = {"A_WIDTH": self.of(*NARROW), "A_FRACTION": self.of(0, 1, 4, 20), "B_WIDTH": self.of(*NARROW)}
        left = {"PRODUCT_LEFT": self.of(0, 0, 3, 30), "OFFSET_LEFT": self.of(0, 0, 3, 30)}
        low = {"CLAMP_LOW": self.bit(), "LOW": self.of(0, -1, -5, 5, 1 << 40, -(1 << 40))}
        high = {"CLAMP_HIGH": self.bit(), "HIGH": self.of(0, 1, 6, -1, 1 << 40)}
        return {"MODE": self.of(*range(5)), **x, **constants, **left, **low, **high, **self.result()}

    def softmax(self) -> Parameters:
        x = {**self.split("N", "LANES", 1, 2, 3, 6), "STABLE": self.bit(), "X_WIDTH": self.of(2, 3, 8, 33)}
        norm = {"NORM_SHIFT": self.of(0, 1, -1, 3), "NORM_WIDTH": self.of(2, 7, 9), "NORM_SIGNED": self.bit()}
        accum = {"ACC_WIDTH": self.of(2, 16, 30), "ACC_SIGNED": self.bit(), "ACC_SATURATE": self.bit()}
        inverse = {"INVERSE_SHIFT": self.of(0, 2, -1), "INVERSE_WIDTH": self.of(2, 16), "INVERSE_SIGNED": self.bit()}
        factor = {"FACTOR_WIDTH": self.of(2, 16), "FACTOR_SIGNED": self.bit()}
        modes = {f"{what}_{mode}": self.of(*range(n)) for what in ("NORM", "INVERSE") for mode, n in _MODES}
        sizes = {"EXP_SIZE": self.of(2, 4), "INVERSE_SIZE": self.of(2, 4)}
        return {**x, "X_SIGNED": self.bit(), **norm, **accum, **inverse, **factor, **modes, **sizes, **self.result()}

    def layernorm(self) -> Parameters:
        x = {
            **self.split("N", "LANES", 1, 2, 3, 6),
            "X_WIDTH": self.of(*NARROW),
            "X_SIGNED": self.bit(),
            "X_SHIFT": self.of(0, 3),
        }
        accum = {"ACC_WIDTH": self.of(2, 3, 14, 30), "ACC_SIGNED": self.bit(), "ACC_FRACTION": self.of(0, 1, 9, -2)}
        modes = {"ACC_ROUNDING": self.of(*range(7)), "ACC_OVERFLOW": self.of(0, 1, 3), "SHARE": self.of(0, 1, 300, -5)}
        table = {"TABLE_SIZE": self.of(1, 2, 100), "TABLE_SHIFT": self.of(0, 8, -3), "FACTOR_WIDTH": self.of(1, 9)}
        sums = {
            "S_WIDTH": self.of(1, 8),
            "B_WIDTH": self.of(1, 8, 40),
            "PRODUCT_LEFT": self.of(0, 3),
            "OFFSET_LEFT": self.of(0, 9),
        }
        return {**x, **accum, **modes, **table, **sums, **self.result()}


_MODES = (("ROUNDING", 7), ("OVERFLOW", 4))

MODULES: dict[str, Draw] = {
    "axis_fifo": lambda d: {"WIDTH": d.of(*WIDTHS, 70000), "DEPTH": d.of(2, 4, 16)},
    "axis_free_running": lambda d: {"WIDTH": d.of(*WIDTHS, 70000), "LATENCY": d.of(1, 2, 8)},
    "axis_skid": lambda d: {"WIDTH": d.of(*WIDTHS, 70000)},
    "rf_merge": lambda d: {
        "OP": d.of(*range(5)), "LANES": d.of(1, 2, 3), "A_WIDTH": d.of(*WIDTHS), "A_SIGNED": d.bit(), "A_LEFT": d.of(0, 1, 30),
        "B_WIDTH": d.of(*WIDTHS), "B_SIGNED": d.bit(), "B_LEFT": d.of(0, 1, 30), **d.result(),
    },
    "fixed_cast": lambda d: {
        "IN_WIDTH": d.of(*WIDTHS, 128), "SIGNED_IN": d.bit(), "SHIFT": d.of(0, 1, 2, 3, -1, -5, 40, 130, 400, -400),
        "WIDTH": d.of(*WIDTHS, 128), "SIGNED": d.bit(), "ROUNDING": d.of(*range(7)), "OVERFLOW": d.of(*range(4)),
    },
    "rf_concat": lambda d: {"WIDTH": d.of(*WIDTHS, 70000), "A_BEATS": d.of(1, 2, 5), "B_BEATS": d.of(1, 2, 5)},
    "rf_depthwise": lambda d: {
        "LANES": d.of(1, 2), "CHANNEL_BEATS": d.of(1, 2, 3), "K_H": d.of(1, 2, 3), "K_W": d.of(1, 2, 3), **d.product(),
    },
    "rf_divide": lambda d: {"WIDTH": d.of(*WIDTHS), "SIGNED": d.bit(), "COUNTS": 9, "CONSTANT": d.of(0, 1, 2, 9)},
    "rf_embed": lambda d: {
        **d.split("N_OUT", "LANES", 1, 2, 4), "X_WIDTH": d.of(2, 3, 8), "X_FRACTION": d.of(0, 0, 1),
        "VOCABULARY": d.of(1, 2, 3, 10, 300), "Y_WIDTH": d.of(*WIDTHS),
    },
    "rf_argmax": lambda d: {
        **d.split("N", "LANES", 1, 2, 3, 6), "X_WIDTH": d.of(2, 3, 8, 33), "X_SIGNED": d.bit(), "Y_WIDTH": d.of(*WIDTHS),
        "ONE": d.of(1, 1 << 40, -(1 << 40)),
    },
    "rf_fork": lambda d: {"WIDTH": d.of(*WIDTHS, 70000), "COUNT": d.of(1, 2, 3, 5)},
    "rf_global_pool": lambda d: {"PIXELS": d.of(1, 2, 4, 9), **d.pool()},
    "rf_hold": lambda d: {
        "WIDTH": d.of(*WIDTHS), "BEATS": d.of(1, 2, 4, 5), "NUMBER_WIDTH": d.of(*WIDTHS), "LATENCY": d.of(1, 2, 4, 9),
    },
    "rf_lanes": lambda d: {
        **dict(zip(("IN_LANES", "OUT_LANES"), ((1, 1), (1, 2), (2, 1), (6, 2), (3, 6), (5, 1))[d.of(*range(6))], strict=True)),
        "WIDTH": d.of(*WIDTHS),
    },
    "rf_layernorm": Drawn.layernorm,
    "rf_mac": Drawn.matrices,
    "rf_mac_stream": lambda d: {**d.matrices(), "LOAD_WIDTH": d.of(16, 24)},
    "rf_map": Drawn.map,
    "rf_matmul": lambda d: {**d.matrix(), "W_SIGNED": d.bit(), "VECTORS": d.of(1, 2, 5)},
    "rf_multiply": lambda d: {"A_WIDTH": d.of(*WIDTHS), "B_WIDTH": d.of(*WIDTHS), "CONSTANT": d.of(0, 1)},
    "rf_pad": lambda d: {name: d.of(0, 1, 2) for name in ("TOP", "BOTTOM", "LEFT", "RIGHT")}
    | {"WIDTH": d.of(*WIDTHS, 70000), "H": d.of(1, 2, 5), "W": d.of(1, 2, 5), "BEATS": d.of(1, 2)},
    "rf_permute": lambda d: {"WIDTH": d.of(*WIDTHS, 70000), "IN_BEATS": d.of(1, 2, 5), "OUT_BEATS": d.of(1, 2, 3, 9)},
    "rf_pool": lambda d: {**d.image(), "COUNT_PAD": d.bit(), **d.pool()},
    "rf_quantise": Drawn.quantiser,
    "rf_recurrent": Drawn.recurrent,
    "rf_rom": lambda d: {"WIDTH": d.of(*WIDTHS, 9000), "DEPTH": d.of(1, 2, 3, 16)},
    "rf_softmax": Drawn.softmax,
    "rf_table": lambda d: {
        "LANES": d.of(1, 2), "X_WIDTH": d.of(*NARROW), "X_SIGNED": d.bit(), "SCALE": d.of(0, 1, 16, -3), "GAIN": d.of(0, 1, 3),
        "SCALE_SHIFT": d.of(0, 8, -3), "OFFSET": d.of(0, 8), "TABLE_SIZE": d.of(1, 2, 16, 100), "POSITIVE_PASS": d.bit(),
        **d.result(),
    },
    "rf_upsample": lambda d: {
        "WIDTH": d.of(*WIDTHS, 70000), "W": d.of(1, 2, 3), "BEATS": d.of(1, 2), "FACTOR_H": d.of(1, 2, 3),
        "FACTOR_W": d.of(1, 2, 3),
    },
    "rf_biases": lambda d: {"WIDTH": d.of(1, 8, 16, 24, 70), "DEPTH": d.of(1, 2, 8), "LOAD_WIDTH": d.of(16, 24)},
    "rf_load": lambda d: {"WIDTH": d.of(1, 8, 16, 24, 70), "DEPTH": d.of(1, 2, 8), "LOAD_WIDTH": d.of(16, 24)},
    "rf_weights": lambda d: {"WIDTH": d.of(1, 8, 16, 24, 70), "DEPTH": d.of(1, 2, 8), "LOAD_WIDTH": d.of(16, 24)},
    "rf_window": lambda d: {
        **(image := d.image()), **d.split("C", "LANES", 1, 2, 6), "WIDTH": d.of(*WIDTHS), "IMAGES": d.of(1, 2, 3),
        "LINES": image["K_H"] + image["S_H"] + d.of(0, 1, 3),
    },
}  # fmt: skip

#: parts of others, with no stream of their own
PARTS = {
    "rf_cell": "rf_recurrent", "rf_lookup": "rf_table", "rf_mac_engine": "rf_mac",
    "rf_maximum": "rf_softmax", "rf_mean": "rf_layernorm", "rf_output": "rf_map",
}  # fmt: skip


def _file(module: str) -> Path:
    (file,) = (file for folder in RTL for file in folder.glob(f"{module}.sv"))
    return file


def top(module: str, drawn: Sequence[Parameters]) -> str:
    """Instances of a module side by side, each between wires as wide as its ports."""
    text = re.sub(r"//.*", "", _file(module).read_text())
    inside = re.search(rf"module {module} #\((.*?)\n\) \((.*?)\n\);", text, re.DOTALL)
    assert inside
    declared = re.findall(r"parameter\s+((?:\w+\s+)*(?:\[[^\]]*\]\s*)?)(\w+)\s*=\s*([^,\n]*)", inside[1])
    ports = re.findall(r"(?:input|output)\s+logic\s+(?:signed\s*)?((?:\[[^\]]*\]\s*)?)(\w+)", inside[2])
    lines = ["module top(input logic clk);"]
    for number, values in enumerate(drawn):
        lines.append(f"  if (1) begin : g_{number}")
        for kind, name, default in declared:
            lines.append(f"    localparam {kind}{name} = {literal(kind, values[name]) if name in values else default.strip()};")
        lines += [f"    logic {width}{name};" for width, name in ports if name != "clk"]
        given = ", ".join(f".{name}({literal(kind, values[name])})" for kind, name, _ in declared if name in values)
        lines += [f"    {module} #({given}) u (", ", ".join(f".{name}({name})" for _, name in ports), "    );", "  end"]
    return "\n".join([*lines, "endmodule", ""])


def literal(kind: str, value: int) -> str:
    return f"{'-' if value < 0 else ''}64'sd{abs(value)}" if "[63:0]" in kind else str(value)


def lint_module(module: str, drawn: Sequence[Parameters], directory: Path) -> None:
    (file := directory / "top.sv").write_text(top(module, drawn))
    ours = ["UNUSEDSIGNAL", "UNDRIVEN", "UNUSEDPARAM"]
    waived = "".join(f'lint_off -rule {rule} -file "{file}"\n' for rule in ours)
    (waivers := directory / "top.vlt").write_text(f"`verilator_config\n{waived}")
    lint([waivers, *PACKAGES, file], "top", *(option for folder in RTL for option in ("-y", str(folder))))


@pytest.mark.parametrize("module", MODULES)
def test_a_module_is_clean_at_the_ends_of_its_parameters(module: str, tmp_path: Path) -> None:
    drawn = Drawn([1, *module.encode()])
    lint_module(module, [MODULES[module](drawn) for _ in range(24)], tmp_path)


def test_constants_of_more_than_8192_bits_are_clean(tmp_path: Path) -> None:
    lint_module("rf_map", [{"LANES": 140, "MODE": mode, "A_WIDTH": 60, "B_WIDTH": 61} for mode in (0, 1, 3)], tmp_path)


def test_every_module_has_its_ends() -> None:
    files = {file for folder in RTL for file in folder.glob("*.sv")}.difference(PACKAGES)
    assert {file.stem for file in files} == MODULES.keys() | PARTS.keys()


@pytest.mark.parametrize("seed", range(4))
def test_a_core_of_drawn_layers_is_clean_whatever_their_types(seed: int, tmp_path: Path) -> None:
    clean(network(seed), "net", tmp_path)


def test_a_core_with_an_input_that_nobody_reads_answers(tmp_path: Path) -> None:
    drawn = next(one for one in map(network, range(99)) if {x.name for x in one.inputs} - read(one.layers))
    core = clean(drawn, "net", tmp_path)
    x = random_rows(drawn, 12, 1)
    with RtlCore(core, optimisation="-O0") as rtl:
        np.testing.assert_array_equal(rtl.predict_raw(x, Stalls(60, 60, 1)), evaluate(drawn, x).astype(np.int64))


def test_a_clamp_below_zero_is_written_as_wide_as_its_module_has_it(tmp_path: Path) -> None:
    x, y, one = Tensor("x", (2,), fixed_point(8, 4)), Tensor("y", (2,), fixed_point(8, 6)), Constants(np.array([1]), 1)
    core = clean(single(Map("m", x, y, MapFunction.HARD_TANH, one, one)), "net", tmp_path)
    assert ".LOW(-64'sd32)" in core.sources[-1].read_text()


def argmax(y: FixedPoint) -> Network:
    none, unused = Constants(np.zeros(0, np.int64), 0), fixed_point(8, 4)
    x = Tensor("x", (3,), fixed_point(8, 4))
    return single(Softmax("s", x, Tensor("y", (3,), y), SoftmaxKind.ARGMAX, unused, unused, unused, none, none))


def test_a_one_of_more_bits_than_an_int_is_not_cut(tmp_path: Path) -> None:
    core = clean(argmax(fixed_point(40, 36)), "net", tmp_path)
    assert ".ONE(64'd68719476736)" in core.sources[-1].read_text()
    with pytest.raises(UnsupportedLayerError, match="layer 's': a one of 72 bits"):
        plan(argmax(fixed_point(80, 70)))
