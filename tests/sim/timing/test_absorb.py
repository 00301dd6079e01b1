# SPDX-License-Identifier: Apache-2.0
"""Flip-flops that go into an ECP5's multipliers and block RAMs, and that a netlist computes the same afterwards."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypersonic.sim.timing.absorb import absorb

CLK = 2
ENABLE, OTHER_ENABLE, RESET = 3, 4, 5


class Builder:
    """A netlist of inputs, flip-flops, multipliers, block RAMs and outputs, as Yosys writes it for an ECP5."""

    def __init__(self) -> None:
        self.cells: dict[str, Any] = {}
        self.ports: dict[str, Any] = {"clk": {"direction": "input", "bits": [CLK]}}
        self._nets = iter(range(10, 100_000))

    def nets(self, bits: int) -> list[int]:
        return [next(self._nets) for _ in range(bits)]

    def port(self, direction: str, bits: list[Any]) -> list[Any]:
        self.ports[f"{direction}_{len(self.ports)}"] = {"direction": direction, "bits": bits}
        return bits

    def row(self, d: list[Any], enable: Any = "1", reset: Any = "0", **parameters: str) -> list[int]:
        """Flip-flops behind the nets. Returns their outputs."""
        q = self.nets(len(d))
        kind = {"CEMUX": "CE", "CLKMUX": "CLK", "LSRMUX": "LSR", "REGSET": "RESET", "SRMODE": "LSR_OVER_CE"} | parameters
        for one, other in zip(d, q, strict=True):
            self._cell("TRELLIS_FF", {"CLK": CLK, "DI": one, "CE": enable, "LSR": reset}, {"Q": other}, kind)
        return q

    def multiplier(self, a: list[Any], b: list[Any]) -> list[int]:
        """A multiplier of signed operands, whose signs are repeated. Returns all bits of its product."""
        pins = {f"{port}{bit}": nets[min(bit, len(nets) - 1)] for port, nets in (("A", a), ("B", b)) for bit in range(18)}
        product = self.nets(36)
        self._cell("MULT18X18D", pins | {"SIGNEDA": "1"}, {f"P{bit}": net for bit, net in enumerate(product)}, {})
        return product

    def memory(self, address: list[Any], enable: Any, width: int) -> list[int]:
        """A block RAM, read through its port B. Returns its word; of 36 bits, port A's outputs are the lower half."""
        word = self.nets(36)
        outputs = {f"DO{side}{bit}": word[18 * place + bit] for place, side in enumerate("AB") for bit in range(18)}
        pins = {f"ADB{bit}": net for bit, net in enumerate(address)} | {"CLKB": CLK, "CEB": enable, "OCEA": "0", "OCEB": "1"}
        parameters = {f"REGMODE_{side}": "NOREG" for side in "AB"} | {f"DATA_WIDTH_{side}": f"{width:032b}" for side in "AB"}
        self._cell("DP16KD", pins, outputs, parameters)
        return word[36 - width :]

    def module(self) -> dict[str, Any]:
        return {"ports": self.ports, "cells": self.cells}

    def _cell(self, kind: str, inputs: dict[str, Any], outputs: dict[str, int], parameters: dict[str, str]) -> None:
        directions = dict.fromkeys(inputs, "input") | dict.fromkeys(outputs, "output")
        connections = {pin: [net] for pin, net in (inputs | outputs).items()}
        cell = {"type": kind, "parameters": dict(parameters), "port_directions": directions, "connections": connections}
        self.cells[f"{kind}_{len(self.cells)}"] = cell


def simulated(module: dict[str, Any], clocks: int) -> list[list[int]]:
    """The outputs of a netlist in each clock, with inputs that depend on the clock and the net alone."""
    inputs = [bit for port in module["ports"].values() if port["direction"] == "input" for bit in port["bits"]]
    outputs = [bit for port in module["ports"].values() if port["direction"] == "output" for bit in port["bits"]]
    state: dict[tuple[str, str], list[int]] = {}
    seen = []
    for clock in range(clocks):
        nets: dict[Any, int] = {"0": 0, "1": 1, "x": 0}
        nets |= {net: random.Random(f"{clock} {net}").getrandbits(1) for net in inputs}
        for _ in range(4):  # until what is behind each other is settled
            following = dict(state)
            for name, cell in module["cells"].items():
                _evaluate(name, cell, nets, state, following)
        seen.append([nets.get(net, 0) for net in outputs])
        state = following
    return seen


def _evaluate(name: str, cell: dict[str, Any], nets: dict[Any, int], state: dict[Any, Any], following: dict[Any, Any]) -> None:
    """Set the outputs of a cell and the state that its registers will have."""
    pins = {pin: nets.get(bits[0], 0) for pin, bits in cell["connections"].items()}

    def register(which: str, data: list[int], enable: int = 1, reset: int = 0) -> list[int]:
        kept: list[int] = state.get((name, which), [0] * len(data))
        following[name, which] = [0] * len(data) if reset else data if enable else kept
        return kept

    def bits(port: str, count: int) -> list[int]:
        return [pins[f"{port}{bit}"] for bit in range(count)]

    def drive(port: str, data: list[int]) -> None:
        nets.update({cell["connections"][f"{port}{bit}"][0]: value for bit, value in enumerate(data)})

    parameters = cell["parameters"]
    if cell["type"] == "TRELLIS_FF":
        nets[cell["connections"]["Q"][0]] = register("q", [pins["DI"]], pins.get("CE", 1), pins["LSR"])[0]
    elif cell["type"] == "MULT18X18D":

        def through(which: str, data: list[int]) -> list[int]:
            if f"REG_{which}_CLK" not in parameters:
                return data
            enable, reset = (parameters.get(f"REG_{which}_{pin}") for pin in ("CE", "RST"))
            return register(which, data, pins[enable] if enable else 1, pins[reset] if reset else 0)

        a, b = (_signed(through(f"INPUT{side}", bits(side, 18))) for side in "AB")
        drive("P", through("OUTPUT", through("PIPELINE", [a * b >> bit & 1 for bit in range(36)])))
    else:
        address = [pins[pin] for pin in sorted(pins) if pin.startswith("ADB")]
        random_word = random.Random(str(address)).getrandbits(36)
        word = register("word", [random_word >> bit & 1 for bit in range(36)], pins["CEB"])
        for place, side in enumerate("AB"):
            data = word[18 * place : 18 * (place + 1)]
            drive(f"DO{side}", register(side, data, pins[f"OCE{side}"]) if parameters[f"REGMODE_{side}"] == "OUTREG" else data)


def _signed(bits: list[int]) -> int:
    return sum(bit << place for place, bit in enumerate(bits)) - (bits[-1] << len(bits))


def multiplier_between_rows(a: dict[str, Any], b: dict[str, Any], product: dict[str, Any], result: dict[str, Any]) -> Builder:
    """A product of two words of four bits; the arguments are those of Builder.row."""
    made = Builder()
    made.port("input", [ENABLE, OTHER_ENABLE, RESET])
    x, y = (made.port("input", made.nets(4)) for _ in range(2))
    products = made.multiplier(made.row(x, **a), made.row(y, **b))
    made.port("output", made.row(made.row(products[:8], **product), **result))
    return made


def registers(module: dict[str, Any]) -> Iterator[str]:
    for cell in module["cells"].values():
        yield from (name for name, value in cell["parameters"].items() if name.startswith("REG_") or value == "OUTREG")


def absorbed(made: Builder, clocks: int = 60) -> tuple[int, set[str]]:
    """Let a netlist absorb its flip-flops, and compare what it computes. Returns how many are gone, and the registers used."""
    before, after = made.module(), copy.deepcopy(made.module())
    gone = absorb(after)
    assert len(after["cells"]) == len(before["cells"]) - gone
    assert simulated(after, clocks) == simulated(before, clocks)
    return gone, set(registers(after))


def test_the_rows_around_a_multiplier_become_its_four_registers() -> None:
    gone, used = absorbed(multiplier_between_rows({}, {}, {}, {}))
    assert gone == 4 + 4 + 8 + 8
    assert used == {f"REG_{register}_CLK" for register in ("INPUTA", "INPUTB", "PIPELINE", "OUTPUT")}


@given(*[st.fixed_dictionaries({}, optional={"enable": st.sampled_from([ENABLE, OTHER_ENABLE]), "reset": st.just(RESET)})] * 4)
def test_enables_and_resets_go_with_their_rows(
    a: dict[str, Any], b: dict[str, Any], product: dict[str, Any], result: dict[str, Any]
) -> None:
    gone, used = absorbed(multiplier_between_rows(a, b, product, result), 30)
    assert gone == 4 + 4 + 8 + 8
    assert len(used) == 4 + sum(map(len, (a, b, product, result)))


def test_one_operand_without_flip_flops_leaves_the_other_ones_outside() -> None:
    made = Builder()
    x, y = (made.port("input", made.nets(4)) for _ in range(2))
    made.port("output", made.row(made.multiplier(made.row(x), y)[:8]))
    assert absorbed(made) == (8, {"REG_OUTPUT_CLK"})


@pytest.mark.parametrize(
    "kind", [{"REGSET": "SET", "reset": RESET}, {"SRMODE": "ASYNC", "reset": RESET}, {"CEMUX": "INV", "enable": ENABLE}]
)
def test_a_flip_flop_that_a_multiplier_does_not_have_stays_outside(kind: dict[str, Any]) -> None:
    before = multiplier_between_rows({}, {}, kind, {}).module()
    assert absorb(before) == 4 + 4


def test_what_something_else_reads_too_stays_outside() -> None:
    made = Builder()
    x, y = (made.row(made.port("input", made.nets(4))) for _ in range(2))
    product = made.multiplier(x, y)
    made.port("output", [*made.row(product[:8]), x[0], product[3]])
    assert absorbed(made) == (0, set())


def test_a_row_between_two_multipliers_goes_into_one_of_them() -> None:
    made = Builder()
    x, y, z = (made.row(made.port("input", made.nets(4))) for _ in range(3))
    made.port("output", made.row(made.multiplier(made.row(made.multiplier(x, y)[:8]), z)[:12]))
    gone, used = absorbed(made)
    assert (gone, used) == (4 + 4 + 8 + 12, {"REG_INPUTA_CLK", "REG_INPUTB_CLK", "REG_OUTPUT_CLK"})


def test_multipliers_with_the_same_operand_have_a_row_each() -> None:
    made = Builder()
    x, y = (made.port("input", made.nets(4)) for _ in range(2))
    for _ in range(2):
        made.port("output", made.multiplier(made.row(x), made.row(y))[:8])
    assert absorbed(made)[0] == 16


@pytest.mark.parametrize("width", [18, 36])
@pytest.mark.parametrize("enable", ["1", ENABLE])
def test_the_row_behind_a_block_ram_is_its_output_register(width: int, enable: Any) -> None:
    made = Builder()
    made.port("input", [ENABLE, OTHER_ENABLE, RESET])
    word = made.memory(made.port("input", made.nets(6)), OTHER_ENABLE, width)
    made.port("output", made.row(word, enable))
    assert absorbed(made) == (width, {f"REGMODE_{side}" for side in ("AB" if width == 36 else "B")})


def test_a_row_with_a_reset_or_of_half_a_word_stays_behind_a_block_ram() -> None:
    cases: list[tuple[int, dict[str, Any]]] = [(18, {"reset": RESET}), (36, {"enable": ENABLE})]
    for width, kind in cases:
        made = Builder()
        made.port("input", [ENABLE, RESET])
        word = made.memory(made.port("input", made.nets(6)), "1", width)
        made.port("output", [*made.row(word[:18], **kind), *made.row(word[18:])])
        assert absorbed(made) == (0, set())
