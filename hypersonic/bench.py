# SPDX-License-Identifier: Apache-2.0
"""`hypersonic bench`: every script of bench/, each in a process of its own, their figures as one JSON object."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from hypersonic.progress import Step

#: bench/ is beside the rooms in a source checkout; an installed wheel does not carry it
SCRIPTS = Path(__file__).resolve().parents[1] / "bench"


class BenchError(RuntimeError):
    """A bench did not run to its end: which, with its last lines."""

    exit_code = 1


def bench(step: Step, scripts: Path = SCRIPTS) -> dict[str, Any]:
    """Run every script of `scripts` with --json; returns {script's name: its figures}. Raises BenchError."""
    files = sorted(scripts.glob("*.py"))
    if not files:
        raise BenchError(f"no benches in {scripts}; they are in the source repository, not in the installed package")
    return {file.stem: _figures(file, step) for file in files}


def _figures(script: Path, step: Step) -> Any:
    step(f"bench: {script.stem}")
    done = subprocess.run([sys.executable, script, "--json"], capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join(done.stderr.splitlines()[-20:])
        raise BenchError(f"{script.name} ended with {done.returncode}:\n{tail}")
    return json.loads(done.stdout)
