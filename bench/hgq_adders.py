# SPDX-License-Identifier: Apache-2.0
"""The size of an HGQ2 model in the da core, compared with what da4ml's own tracer makes of the same file.

python -m bench.hgq_adders [MODEL ...]

MODEL: a zoo name or a .keras file with a YAML beside it; default: the zoo's. da4ml's adders of a constant are the biases. Its
LUTs are its own estimate; those of the core are one for each bit of an adder's result.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypersonic.hls.child import python_argv
from hypersonic.hls.frontend.description import find_model
from hypersonic.hls.frontend.hgq import environment

_TRACE = """
import json, sys
from collections import Counter
import keras
import hgq
from da4ml.converter import trace_model
from da4ml.trace import HWConfig, comb_trace
model = keras.models.load_model(sys.argv[1], compile=False)
logic = comb_trace(*trace_model(model, HWConfig(1, -1, -1), solver_options={"hard_dc": 2}))
kinds = Counter(op.opcode for op in logic.ops)
found = {"adders": kinds[0] + kinds[1], "constants": kinds[4], "products": kinds[7] + kinds[-7], "luts": logic.cost}
sys.stdout.write("\\n" + json.dumps(found))
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["jets_hgq", "jets_transformer"], metavar="MODEL")
    asked = parser.parse_args(argv)
    _say("| model | da core: adders | LUTs | registers | clocks | da4ml: adders | of a constant | products | LUTs |")
    _say("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name in asked.models:
        file = find_model(name)
        core, theirs = _core(file), _child(python_argv("-c", _TRACE, str(file)))
        ours = (core["adders"], core["estimated_luts"], core["register_bits"], core["latency_cycles"])
        counted = theirs["adders"], theirs["constants"], theirs["products"], round(theirs["luts"])
        _say(f"| {file.stem} | {' | '.join(f'{number:,}' for number in (*ours, *counted))} |")
    return 0


def _core(file: Path) -> dict[str, Any]:
    """The figures of the da core."""
    with tempfile.TemporaryDirectory() as directory:
        _child(python_argv("-m", "hypersonic.hls.convert", str(file), "--output", directory, "--core", "da"))
        figures: dict[str, Any] = json.loads((Path(directory) / "project.json").read_text())["report"]["core"]
        return figures


def _child(argv: list[str]) -> dict[str, Any]:
    """Run a program in the environment of HGQ2; return its last line, if that is JSON. Raises CalledProcessError."""
    ran = subprocess.run(argv, env=environment(_say), stdout=subprocess.PIPE, text=True, check=True)
    last = ran.stdout.rpartition("\n")[2]
    found: dict[str, Any] = json.loads(last) if last.startswith("{") else {}
    return found


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
