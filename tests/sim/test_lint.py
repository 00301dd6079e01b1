# SPDX-License-Identifier: Apache-2.0
"""The RTL lint: it sees every module there is."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from hypersonic.sim import lint

ROOT = Path(__file__).resolve().parents[2]
#: test benches and proofs, which Verilator and the prover read themselves, and what asks a Vivado for its licence
NOT_IN_A_KERNEL = (":!sim/tb", ":!tests", ":!firmware/formal", ":!firmware/toolchains")


def test_every_module_that_the_tree_declares_is_linted() -> None:
    argv = [
        "git",
        "grep",
        "--untracked",
        "-hE",
        r"^\s*module\s+\w+",
        "--",
        "*.sv",
        "*.v",
        ":!sim/tb",
        ":!tests",
        *NOT_IN_A_KERNEL,
    ]
    text = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    declared = re.findall(r"^\s*module\s+(?:automatic\s+)?(\w+)", text, re.MULTILINE)
    linted = [file.stem for file in lint.modules()]
    assert (sorted(linted), len(linted)) == (sorted(declared), len(declared))
    assert len(linted) > 50
