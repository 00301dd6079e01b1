# SPDX-License-Identifier: Apache-2.0
"""The cost of counting overflows: compiling and running each model's C++ with plain and with counting numbers.

python -m bench.csim.overflows [MODEL ...] [--rows 20000]

MODEL: a zoo model or a project directory. Rows are random, over the range of each input's type. The headers are precompiled
first, which a machine needs only once. Seconds are processor time, children included.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.cache import cache_directory
from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.csim.overflow.run import answers_and_overflows, compile_counting
from hypersonic.hls.project import HlsProject

T = TypeVar("T")


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["jets", "facile"], metavar="MODEL")
    parser.add_argument("--rows", type=int, default=20000, help="default: 20000")
    asked = parser.parse_args(argv)
    print("| model | csim: compile, s | counting: compile, s | csim, rows/s | counting, rows/s | factor | wrong, saturated |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["HYPERSONIC_CACHE"] = scratch
        for model in asked.models:
            _print(model, asked.rows, Path(scratch))
    return 0


def _print(model: str, rows: int, scratch: Path) -> None:
    project = HlsProject.load(Path(model) if Path(model, "project.json").is_file() else _converted(model, scratch / "projects"))
    library, plain = _compiled(lambda: compile_csim(project))
    csim = Csim(library, project)  # loaded before the next compilation empties the cache
    _, counting = _compiled(lambda: compile_counting(project))
    x = _random(project, rows)
    csim.predict_raw(x[:1])
    y, fast = _seconds(lambda: csim.predict_raw(x))
    (again, found), slow = _seconds(lambda: answers_and_overflows(project, x))
    if not np.array_equal(y, again):
        raise SystemExit(f"{model}: the answers differ")
    print(
        f"| {project.name} | {plain:.1f} | {counting:.1f} | {rows / fast:,.0f} | {rows / slow:,.0f} | {slow / fast:.1f} "
        f"| {len(found.wrong)}, {len(found.saturated)} |",
        flush=True,
    )


def _converted(model: str, directory: Path) -> Path:
    argv = [sys.executable, "-m", "hypersonic.hls.convert", model, "--output", str(directory / model), "--core", "csim"]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return directory / model


def _random(project: HlsProject, rows: int) -> NDArray[np.int64]:
    random = np.random.default_rng(1)
    parts = [
        random.integers(spec.fixed.min_raw, spec.fixed.max_raw, (rows, spec.size), endpoint=True)
        for spec in project.inputs.tensors
    ]
    return np.concatenate(parts, axis=1)


def _compiled(compile_it: Callable[[], Path]) -> tuple[Path, float]:
    """The library, and the seconds of its second compilation, when the headers are precompiled."""
    compile_it()
    for kind in ("csim", "csim_object"):
        shutil.rmtree(cache_directory() / kind)
    return _seconds(compile_it)


def _seconds(work: Callable[[], T]) -> tuple[T, float]:
    begin = _processor_time()
    done = work()
    return done, _processor_time() - begin


def _processor_time() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    sys.exit(main())
