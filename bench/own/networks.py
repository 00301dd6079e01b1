# SPDX-License-Identifier: Apache-2.0
"""Describes, builds and compares networks as a user does who has only the docs, and prints a verdict on each.

    python -m bench.own.networks DIRECTORY [NAME ...] [--rtl]

DIRECTORY has a folder for each network: `model.*`, `rows.npy` or `rows.npz`, and `expected.npz`, the framework's answers in the
order of the outputs. Each is copied, described with `hypersonic new`, and built with `hypersonic build --target sw_emu`. Its
C++ then computes the rows, and the answers are compared with those expected:

- right: not far, by the definition of hls/closeness/difference.py
- far: built, and far from what is expected
- refused by new: one sentence about the model, with exit code 2
- refused by build, or unclear: another refusal after `new`, or any other result

--rtl: the RTL of networks that a core computes runs in Verilator too, and its integers must be the C++'s.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hypersonic.hls.build import convert_model
from hypersonic.hls.closeness.comparison import judged_of
from hypersonic.hls.closeness.difference import difference
from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.description import describe
from hypersonic.hls.rtl.simulate import RtlCore
from hypersonic.own.task import OwnData, own_task

#: rows that run in the RTL
_RTL_ROWS = 32


@dataclass(frozen=True)
class Verdict:
    """A network's verdict. kind: one of those above. text: the figures, or what the command said."""

    kind: str
    text: str


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each network, and the count of each verdict. Return 1 if one is far, unclear or refused by build."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="folders (default: all)")
    parser.add_argument("--rtl", action="store_true", help="compare the RTL of a core with the C++")
    asked = parser.parse_args(argv)
    names = asked.names or sorted(path.name for path in asked.directory.iterdir() if path.is_dir())
    verdicts = []
    for name in names:
        with tempfile.TemporaryDirectory() as scratch:
            shutil.copytree(asked.directory / name, place := Path(scratch) / name)
            verdict = _verdict(place, rtl=asked.rtl)
        verdicts.append(verdict)
        print(f"{name}: {verdict.kind}: {verdict.text}", flush=True)
    print("; ".join(f"{count} {kind}" for kind, count in Counter(verdict.kind for verdict in verdicts).most_common()))
    return int(any(verdict.kind not in ("right", "refused by new") for verdict in verdicts))


def _verdict(place: Path, *, rtl: bool) -> Verdict:
    model = next(file for file in sorted(place.glob("model.*")) if file.suffix != ".yaml")
    rows = next(place.glob("rows.np[yz]"))
    described = _hypersonic(place, "new", model.name, "--rows", rows.name)
    if described.returncode:
        return Verdict(*_refusal("new", described))
    built = _hypersonic(
        place, "build", model.name, "--target", "sw_emu", "--model-repository", "models", "--build-directory", "build"
    )
    if built.returncode:
        return Verdict(*_refusal("build", built))
    return _compared(model, rows, place / "expected.npz", rtl=rtl)


def _hypersonic(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("hypersonic")), *arguments]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)


def _refusal(command: str, done: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
    is_sentence = done.returncode == 2 and "Error:" not in last and "report it" not in last
    return (f"refused by {command}" if is_sentence else f"unclear, {command} ended with {done.returncode}"), last


def _compared(model: Path, rows: Path, expected: Path, *, rtl: bool) -> Verdict:
    try:
        project, core = convert_model(describe(str(model)))
    except ConversionError:
        project, core = convert_model(describe(str(model)), core="csim")
    given = own_task(str(model), project, OwnData(rows)).task.sample(0, 0).inputs
    x_raw = project.inputs.to_raw(given)
    y_raw = Csim(compile_csim(project), project).predict_raw(x_raw)
    with np.load(expected) as stored:
        wanted = [stored[name].reshape(len(y_raw), -1) for name in stored.files]
    parts = zip(project.outputs.tensors, project.outputs.from_raw(y_raw), strict=True)
    answers = [np.asarray(spec.real(part), np.float64).reshape(len(y_raw), -1) for spec, part in parts]
    judged = judged_of(project.report, [tensor.name for tensor in project.outputs.tensors])
    found = [difference(got, given, each.classes) for got, given, each in zip(answers, wanted, judged, strict=True)]
    far = [clause for each, kind in zip(found, judged, strict=True) if (clause := each.far_because(kind))]
    text = ", ".join(f"worst {each.worst / each.span:.2%} of the span, rms {each.share:.2%} of the spread" for each in found)
    kind = core.kind.value if core else "csim alone"
    if rtl and core:
        with RtlCore(core) as simulated:
            if not np.array_equal(simulated.predict_raw(x_raw[:_RTL_ROWS]), y_raw[:_RTL_ROWS]):
                return Verdict("unclear, the RTL differs from the C++", kind)
        kind = f"{kind}, whose RTL gives the same integers"
    return Verdict("far" if far else "right", f"{text}; core {kind}" + "".join(f"; {clause}" for clause in far))


if __name__ == "__main__":
    sys.exit(main())
