# SPDX-License-Identifier: Apache-2.0
"""Constructs that Vivado refuses, or synthesises otherwise than a simulator computes: a list with sources, which is checked.

`python -m hypersonic.sim.vivado` looks for each construct of TRAPS in slang's syntax tree of every module and package and of
generated kernels, and prints where it is. Verilator finds some constructs by itself (`by` is its warning then); they are in the
list for its completeness, and tests/sim/test_vivado.py shows for each entry that its example is refused.

Widths, loops and several drivers are Verilator's alone; what no synthesis reads at all, such as classes, is not listed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pyslang.parsing import Token
from pyslang.syntax import SyntaxKind, SyntaxNode, SyntaxTree

from hypersonic.sim import lint
from hypersonic.sim.elaborate import bench_kernels

_UG901 = "UG901 (2024.1), table SystemVerilog Constructs"
_MISMATCH = "Mills and Cummings, RTL Coding Styles That Yield Simulation and Synthesis Mismatches, SNUG 1999"
_NONBLOCKING = "Cummings, Nonblocking Assignments in Verilog Synthesis, SNUG 2000"
_VERILOG_FILES = (
    "UG1118 (2024.1), Top-Level HDL Requirements; chipsalliance/Cores-VeeR-EL2 issue 31, vortexgpgpu/vortex issue 160: Vivado "
    "reads a file named .v as Verilog 2001"
)


class Trap(NamedTuple):
    """A construct.

    Attributes:
        why: what goes wrong.
        example: of the body of a module with the inputs clk, a and b and the output y, of one bit each.
        found: (node, the nodes around it, innermost last) -> whether it is the construct. None if Verilator finds it.
        by: the warning of Verilator.
        only: the ending of the names of files in which it is one.
    """

    name: str
    why: str
    source: str
    example: str
    found: Callable[[SyntaxNode, Sequence[SyntaxNode]], bool] | None = None
    by: str = ""
    only: str = "v"


def _is(*names: str) -> Callable[[SyntaxNode, Sequence[SyntaxNode]], bool]:
    """A node of one of these kinds."""
    kinds = {getattr(SyntaxKind, name) for name in names}
    return lambda node, _: node.kind in kinds


def _tokens(node: SyntaxNode) -> list[str]:
    return [child.rawText for child in node if isinstance(child, Token)]


def _of_a_package(node: SyntaxNode, _: Sequence[SyntaxNode]) -> bool:
    return node.kind == SyntaxKind.ScopedName and "::" in _tokens(node)


def _hierarchical(node: SyntaxNode, around: Sequence[SyntaxNode]) -> bool:
    """A name with dots that does not begin with a generate block of the same module, which Vivado resolves."""
    if node.kind != SyntaxKind.ScopedName or "." not in _tokens(node):
        return False
    module = next((outer for outer in around if outer.kind == SyntaxKind.ModuleDeclaration), node)
    blocks = (inner for inner, _ in _nodes(module, ()) if inner.kind == SyntaxKind.NamedBlockClause)
    return node.getFirstToken().rawText not in {_tokens(block)[-1] for block in blocks}


def _unknown_bits(node: SyntaxNode, _: Sequence[SyntaxNode]) -> bool:
    if node.kind == SyntaxKind.UnbasedUnsizedLiteralExpression:
        return str(node).strip().lower() in {"'x", "'z"}
    return node.kind == SyntaxKind.IntegerVectorExpression and bool(set("xz?") & set(_tokens(node)[-1].lower()))


def _static_value(node: SyntaxNode, around: Sequence[SyntaxNode]) -> bool:
    """A variable of a module with a value in its declaration: the value of power-on, not one that follows its inputs."""
    if node.kind != SyntaxKind.EqualsValueClause or len(around) < 2 or around[-2].kind != SyntaxKind.DataDeclaration:
        return False
    return not any(outer.kind.name.startswith("Always") or "Function" in outer.kind.name for outer in around)


def _initial_of_a_register(node: SyntaxNode, _: Sequence[SyntaxNode]) -> bool:
    """An initial block that assigns to a name without an index. A memory is filled with one, or by $readmemh."""
    if node.kind != SyntaxKind.InitialBlock:
        return False
    return any(
        inner.kind == SyntaxKind.AssignmentExpression and not str(inner[0]).strip().endswith("]")
        for inner, _ in _nodes(node, ())
    )


def _delayed_assign(node: SyntaxNode, around: Sequence[SyntaxNode]) -> bool:
    outer = around[-1].kind if around else None
    return node.kind in {SyntaxKind.DelayControl, SyntaxKind.Delay3} and outer != SyntaxKind.TimingControlExpression


def _level_sensitive(node: SyntaxNode, _: Sequence[SyntaxNode]) -> bool:
    """An event that is neither an edge of a signal nor `@*`."""
    return node.kind == SyntaxKind.SignalEventExpression and not any("edge" in token for token in _tokens(node))


def _several_edges(node: SyntaxNode, _: Sequence[SyntaxNode]) -> bool:
    return node.kind == SyntaxKind.BinaryEventExpression


def _static_function(node: SyntaxNode, _: Sequence[SyntaxNode]) -> bool:
    return node.kind == SyntaxKind.FunctionPrototype and "automatic" not in str(node).split()


def _unique_without_default(node: SyntaxNode, _: Sequence[SyntaxNode]) -> bool:
    if node.kind != SyntaxKind.CaseStatement or not {"unique", "unique0", "priority"} & set(_tokens(node)):
        return False
    return "default" not in str(node)


_SYSTEM = {"$clog2", "$signed", "$unsigned", "$bits", "$readmemh", "$error"}


def _other_system_call(node: SyntaxNode, _: Sequence[SyntaxNode]) -> bool:
    return node.kind in {SyntaxKind.SystemName, SyntaxKind.ElabSystemTask} and _tokens(node)[0] not in _SYSTEM


TRAPS = (
    Trap("type string", "[Synth 8-27] string type not supported; a parameter without a type may hold a text",
         "lowRISC/opentitan pull request 29707, lowRISC/ibex issue 429", 'localparam string S = "a";', _is("StringType")),
    Trap("hierarchical name", "[Synth 8-6038] cannot resolve hierarchical name for the item",
         "pulp-platform/axi issue 313, zachjs/sv2v issue 185", "assign y = u_other.q;", _hierarchical),
    Trap("SystemVerilog in a file named .v", "a syntax error: names of a package",
         _VERILOG_FILES, "assign y = some_pkg::A;", _of_a_package, only=".v"),
    Trap("SystemVerilog in a file named .v", "a syntax error: types, processes, casts and literals of SystemVerilog",
         _VERILOG_FILES, "logic q;",
         _is("LogicType", "BitType", "IntType", "AlwaysFFBlock", "AlwaysCombBlock", "CastExpression", "SignedCastExpression",
             "UnbasedUnsizedLiteralExpression", "WildcardPortConnection", "PostincrementExpression", "TypedefDeclaration"),
         only=".v"),
    Trap("delay in a process", "not supported, or ignored: the simulation waits and the hardware does not",
         f"{_UG901}: Procedural timing controls", "always_ff @(posedge clk) y <= #1 a;", _is("DelayControl", "WaitStatement")),
    Trap("delay of an assignment", "ignored: the simulation waits and the hardware does not",
         f"{_MISMATCH}, Timing delays", "assign #1 y = a;", _delayed_assign),
    Trap("fork", "not supported", f"{_UG901}: Parallel blocks",
         "always_ff @(posedge clk) fork y <= a; join", _is("ParallelBlockStatement")),
    Trap("iff in an event", "not supported", f"{_UG901}: Conditional event controls",
         "always_ff @(posedge clk iff b) y <= a;", _is("IffEventClause")),
    Trap("system call", "array queries are not supported, and what prints, draws or takes the time is ignored or refused",
         f"{_UG901}: Array querying functions", "always_comb y = a & $random == 0;", _other_system_call),
    Trap("casex", "an X in the simulation matches every item, and the hardware has none",
         f"{_MISMATCH}, casex", "always_comb casex (a) 1'b0: y = b; default: y = a; endcase", by="CASEX"),
    Trap("bits that are X or Z", "a simulation carries them on or branches on them; synthesis chooses a value",
         f"{_MISMATCH}, Assigning X", "assign y = a ? b : 1'bx;", _unknown_bits),
    Trap("=== and ==?", "compares X and Z, which hardware does not have",
         f"{_MISMATCH}, casex, for the same reason", "assign y = a === b;",
         _is("CaseEqualityExpression", "CaseInequalityExpression", "WildcardEqualityExpression",
             "WildcardInequalityExpression")),
    Trap("incomplete list of events", "the simulation waits for the list, and synthesis completes it",
         f"{_MISMATCH}, Incomplete sensitivity list", "logic q; always @(a) q = a & b; assign y = q;", _level_sensitive),
    Trap("several edges", "an asynchronous reset or a second clock; here every reset is synchronous",
         f"{_MISMATCH}, Sensitivity lists; house rule", "always_ff @(posedge clk or negedge b) y <= a;", _several_edges),
    Trap("value of a variable's declaration", "the value of power-on: a reset does not bring it back, and it follows no input",
         "UG901 (2024.1), Registers: initial values are loaded at configuration", "logic q = a; assign y = q;", _static_value),
    Trap("initial block of a register", "the value of power-on, as above; memories are filled so",
         "UG901 (2024.1), Registers: initial values are loaded at configuration", "initial y = 1'b0;", _initial_of_a_register),
    Trap("static function", "its variables keep their values in the simulation, and synthesis makes gates of it",
         f"{_MISMATCH}, Functions", "function logic f(logic p); return p; endfunction assign y = f(a);", _static_function),
    Trap("unique or priority case without default", "synthesis takes the other values for impossible, as with full_case",
         "Cummings, SystemVerilog's priority & unique, SNUG Israel 2005",
         "always_comb begin y = b; unique case (a) 1'b1: y = a; endcase end", _unique_without_default),
    Trap("blocking assignment in always_ff", "the order of processes decides in the simulation",
         _NONBLOCKING, "always_ff @(posedge clk) y = a;", by="BLKSEQ"),
    Trap("nonblocking assignment in always_comb", "the simulation is one step late",
         _NONBLOCKING, "always_comb y <= a;", by="COMBDLY"),
    Trap("latch", "memory where none was meant", f"{_MISMATCH}, Latches",
         "always_comb if (a) y = b;", by="LATCH"),
    Trap("always_latch", "[Synth 8-327] inferring latch; no module here has one", f"{_MISMATCH}, Latches; house rule",
         "always_latch if (a) y = b;", _is("AlwaysLatchBlock")),
    Trap("tagged union", "not supported", f"{_UG901}: Tagged unions",
         "typedef union tagged { logic p; logic q; } t; assign y = a;", _is("TaggedUnionExpression", "UnionType")),
)  # fmt: skip


def found_in(file: Path) -> Iterator[str]:
    """Yield `line: construct: why (source)` for each trap in a file of RTL."""
    tree = SyntaxTree.fromFile(str(file))
    manager = tree.sourceManager
    traps = [trap for trap in TRAPS if trap.found and file.suffix.endswith(trap.only)]
    for node, around in _nodes(tree.root, ()):
        for trap in traps:
            if trap.found and trap.found(node, around):
                line = manager.getLineNumber(node.sourceRange.start)
                yield f"{line}: {trap.name}: {trap.why} ({trap.source})"


def _nodes(node: SyntaxNode, around: tuple[SyntaxNode, ...]) -> Iterator[tuple[SyntaxNode, tuple[SyntaxNode, ...]]]:
    yield node, around
    for child in node:
        if isinstance(child, SyntaxNode):
            yield from _nodes(child, (*around, node))


def main() -> int:
    """Print what is found in all RTL. Returns 1 if there is anything, otherwise 0."""
    with tempfile.TemporaryDirectory() as scratch:
        generated = [file for kernel in bench_kernels(Path(scratch)) for file in kernel.sources]
        files = dict.fromkeys(
            [*lint.modules(), *lint.packages(), *(file for file in generated if file.suffix in {".sv", ".v"})]
        )
        found = [f"{file}:{text}" for file in files for text in found_in(file)]
    sys.stdout.write(
        "\n".join(found or [f"ok     nothing in {len(files)} files that Vivado refuses or takes otherwise"]) + "\n"
    )
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main())
