# SPDX-License-Identifier: Apache-2.0
"""The proofs of the stages of an rf core, from firmware/formal/rf/stages.toml: the module that joins a stage to the rules of a
stage (stage_rules.sv), and SymbiYosys' script. A stage with other ports than s_axis and m_axis has a module written by hand.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hypersonic.hls.rf.modules import packages_first, rtl_sources
from hypersonic.hls.sources import source_files

RF = Path(__file__).resolve().parent / "rf"
_RULES = RF.parent / "stream_rules.sv"

#: the module that the contract stands for in the unbounded proofs, the contract, and the rules of memories
_REAL, _CONTRACT, _MEMORIES = "axis_free_running.sv", "free_running_contract.sv", "memory_rules.v"

#: SymbiYosys' engines: SMT with z3, and ABC's bounded model checking
Z3, BOUNDED = "smtbmc --unroll z3 -- --noincr", "abc scorr; bmc3"

#: the engine of each mode. pdr's -s is its SAT solver GipSAT, which takes a third of the time of the other one; SymbiYosys adds
#: an -l, with which GipSAT fails, and a second -l takes that back
_ENGINES = {"prove": "abc scorr; pdr -l -s", "bmc": BOUNDED, "cover": Z3}

_LASTS = {"kept": 0, "turn": 1, "none": 2}

_WRAPPER = """\
// SPDX-License-Identifier: Apache-2.0
//
// Generated from firmware/formal/rf/stages.toml.
`default_nettype none

module {name}_proof (
    input logic clk,
    input logic rst_n,
    input logic mark,
    input logic s_axis_tvalid,
    input logic [{taken}-1:0] s_axis_tdata,
    input logic s_axis_tlast,
    input logic m_axis_tready
);

  logic s_axis_tready, m_axis_tvalid, m_axis_tlast;
  logic [{given}-1:0] m_axis_tdata;
  (* anyconst *) logic [7:0] item;

  {module} #({parameters}) u_{module} (.*{ports});

  stage_rules #(
{rules}
  ) u_rules (
      .clk, .rst_n, .mark, .s_valid(s_axis_tvalid), .s_ready(s_axis_tready), .s_last(s_axis_tlast), .m_valid(m_axis_tvalid),
      .m_ready(m_axis_tready), .m_data(m_axis_tdata), .m_last(m_axis_tlast), .excused(1'b0), .item,
      .s_item({piece}'(s_axis_tdata >> 8'({places_in} >> {{item, 3'd0}}))),
      .m_item({piece}'(m_axis_tdata >> 8'({places_out} >> {{item, 3'd0}})))
  );

endmodule

`default_nettype wire
"""

_SCRIPT = """\
[tasks]
{tasks}

[options]
{options}

[engines]
{engines}

[script]
{read}
hierarchy -check -top {name}_proof
proc
flatten
opt_dff
memory_dff
opt_clean
memory_collect
techmap -max_iter 1 -map {memories}
memory_map -formal
prep -top {name}_proof

[files]
{listed}
"""


@cache
def table() -> dict[str, dict[str, Any]]:
    """The proofs by their names. An entry is documented in stages.toml."""
    (file,) = source_files(RF, "stages.toml")
    return tomllib.loads(file.read_text())


def texts(name: str) -> dict[str, str]:
    """The files of a proof -> their texts, the design in compile order, the module with the properties last."""
    proof = table()[name]
    own = RF / f"{name}_proof.sv"
    modules = dict.fromkeys(file for module in proof.get("modules", [_module(name)]) for file in rtl_sources(module))
    files = [RF / _CONTRACT, RF / _MEMORIES, *packages_first(modules), _RULES, RF / "stage_rules.sv"]
    read: dict[str, str] = proof.get("memories", {}) | {file.name: file.read_text() for file in files}
    return read | {f"{name}_proof.sv": own.read_text() if own.is_file() else _wrapper(name)}


def design(files: Iterable[str]) -> list[str]:
    """Those files of any proof that are its design as a whole: modules, without the contract that replaces one of them."""
    return [file for file in files if file.endswith(".sv") and file != _CONTRACT]


def script(name: str) -> str:
    """SymbiYosys' script of a proof."""
    proof, every = table()[name], [*texts(name)]
    modes = [mode for mode in _ENGINES if mode in proof]
    read = {mode: [_CONTRACT if mode == "prove" and file == _REAL else file for file in design(every)] for mode in modes}
    return _SCRIPT.format(
        name=name,
        tasks="\n".join(f"{mode} {mode}" for mode in modes),
        **options_and_engines(proof, {mode: _ENGINES[mode] for mode in modes}),
        read="\n".join(f"{mode}: read_verilog -sv -formal {' '.join(read[mode])}" for mode in modes),
        memories=_MEMORIES,
        listed="\n".join(every),
    )


def options_and_engines(proof: Mapping[str, Any], engines: Mapping[str, str]) -> dict[str, str]:
    """The sections "options" and "engines" of SymbiYosys' script.

    Args:
        proof: the entry of the table of proofs.
        engines: mode -> its engine, for the proof's modes.
    """
    options = (f"{mode}: {option}" for mode, engine in engines.items() for option in _options(mode, proof, engine))
    return {"options": "\n".join(options), "engines": "\n".join(f"{mode}: {engine}" for mode, engine in engines.items())}


def _options(mode: str, proof: Mapping[str, Any], engine: str) -> list[str]:
    """SymbiYosys' options of a mode. ABC leaves it to z3 to make a trace of a counterexample."""
    options = [f"mode {mode}", f"depth {int(proof[mode])}"]
    if mode == "cover" and "skip" in proof:
        options.append(f"skip {proof['skip']}")
    return [*options, *(["aigsmt z3"] if engine.startswith("abc") else [])]


def _module(name: str) -> str:
    return str(table()[name].get("module", name))


def _wrapper(name: str) -> str:
    proof = table()[name]
    piece, pieces = proof.get("piece", 1), proof.get("pieces", 1)
    beats = [[None if one == "-" else int(one, 36) for one in beat] for beat in proof.get("carries", "").split()]
    slices = max(map(len, beats), default=1)
    taken, given = proof.get("bits", (piece * pieces, piece * slices))
    items = [(source, beat, place) for beat, sources in enumerate(beats) for place, source in enumerate(sources)]
    takes, gives = proof.get("takes", 1), len(beats) or proof.get("gives", 1)
    needs = [max((source // pieces + 1 for source in beat if source is not None), default=1) for beat in beats]
    rules = {
        "IN": takes, "OUT": gives, "WIDTH": given, "ITEM_WIDTH": piece, "LAST": _LASTS[proof.get("last", "kept")],
        "EARLY": int(proof.get("early", False)), "RESETS": int(proof.get("resets", True)),
        "MOST": proof["most"], "WAIT": proof["wait"],
        "NEED": _bytes(proof.get("needs") or needs or [takes] * gives),
    }  # fmt: skip
    if items:
        rules |= {
            "ITEMS": len(items),
            "FROM": _bytes([255 if source is None else source // pieces for source, _, _ in items]),
            "AT": _bytes([beat for _, beat, _ in items]),
        }
    return _WRAPPER.format(
        name=name,
        module=_module(name),
        taken=taken,
        given=given,
        piece=piece,
        parameters=_settings(proof["parameters"]),
        ports="".join(f", .{port}({wire})" for port, wire in proof.get("ports", {}).items()),
        rules=",\n".join(f"      .{key}({value})" for key, value in rules.items()),
        places_in=_bytes([(source or 0) % pieces * piece for source, _, _ in items] or [0]),
        places_out=_bytes([place * piece for _, _, place in items] or [0]),
    )


def _settings(parameters: Mapping[str, int | str]) -> str:
    return ", ".join(f".{key}({json.dumps(value)})" for key, value in parameters.items())


def _bytes(values: Sequence[int]) -> str:
    """Numbers of 8 bits as one constant, the first in the low bits."""
    return f"{8 * len(values)}'h" + bytes(reversed(values)).hex()
