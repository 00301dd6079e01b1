# SPDX-License-Identifier: Apache-2.0
"""Runs hls4ml 1.3.0's own test cases with backend='Hypersonic' in place of 'Vivado' and 'Vitis', and prints a table.

    python -m bench.stock.run [--hours 1] [--jobs N] [--results FILE] [--case NAME ...] [--rtl]

The cases run in a fixed pseudo-random order, so that those that have run are a fair sample at any time. Each result is added
to the file as the case ends; the next call continues with the others. Every answer is compared with that of hls4ml's own C++.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from bench.stock.cases import Kind, Result, file_of, keras_of, read_results
from bench.stock.order import Order, listed_in
from bench.stock.source import hls4ml_tests
from bench.stock.table import table
from tests.support.environments import environment, site_packages

ROOT = Path(__file__).resolve().parents[2]

#: pandas and seaborn, which hls4ml's profiling imports
_PROFILING = ROOT / "tests" / "hls" / "plugin" / "profiling.txt"

#: the share of the time for the cases for Keras 3, which is about their share of all cases
SHARE_OF_KERAS_3 = 0.1

#: the most seconds for a process to collect the cases, which takes half a minute on an idle machine
_COLLECTION_S = 3600

_PYTEST = ("-m", "pytest", "-q", "-p", "bench.stock.plugin", "-p", "no:cacheprovider", "-W", "ignore")


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if a case crashed or was different."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=1.0, help="time for the cases; 0 prints the table (default: 1)")
    parser.add_argument("--limit", type=float, default=120, help="most seconds of processor time of a case (default: 120)")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the cases (default: 1)")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "stock_cases.jsonl", help="file of JSON lines")
    parser.add_argument("--case", action="append", default=[], help="run only this one (can be repeated)")
    parser.add_argument("--rtl", action="store_true", help="answer with the RTL in Verilator, not with the core's exact model")
    asked = parser.parse_args(argv)
    results = asked.results.resolve()
    if asked.hours:
        until = time.time() + 3600 * asked.hours
        order = Order(str(results), "", until, asked.limit, tuple(asked.case), keras=2, rtl=asked.rtl)
        with ThreadPoolExecutor(asked.jobs) as pool:
            list(pool.map(run_cases, (replace(order, part=(index, asked.jobs)) for index in range(asked.jobs))))
    done = read_results(results)
    print(table(done, [listed_in(results, keras) for keras in (2, 3)]))
    return int(any(result.kind in (Kind.CRASHED, Kind.DIFFERENT) for result in done))


def run_cases(order: Order) -> None:
    """Run the cases without a result until the time is over, those for Keras 2 first. `now` and `keras` are set here."""
    results = Path(order.results)
    work = results.with_suffix(f".work{order.part[0] or ''}")
    results.parent.mkdir(parents=True, exist_ok=True)
    if not work.is_dir():
        shutil.copytree(hls4ml_tests(), work)
    (work / "pytest.ini").write_text("[pytest]\n")
    started = time.time()
    for keras, share in ((2, 1 - SHARE_OF_KERAS_3), (3, 1.0)):
        only = tuple(case for case in order.only if keras_of(case) == keras)
        until = started + share * (order.until - started)
        part = replace(order, now=str(work / "now"), until=until, only=only, keras=keras)
        more = bool(only) or not order.only
        while more and time.time() < until:
            more = _process(part, work)


def _process(order: Order, work: Path) -> bool:
    """Run cases in one pytest process. Return whether it ended in the middle of one, whose result is then written here."""
    now = Path(order.now)
    now.write_text("")
    files = {file_of(case) for case in order.only} or {file.name for file in (work / "test/pytest").glob("test_*.py")}
    paths = [f"test/pytest/{file}" for file in sorted(files) if keras_of(file) == order.keras]
    argv = [sys.executable, *_PYTEST, "--continue-on-collection-errors", "--rootdir", str(work), *paths]
    quiet = {"TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    imported = ROOT, site_packages(environment(_PROFILING))
    ours = {
        "PYTHONPATH": os.pathsep.join(map(str, imported)),
        "HYPERSONIC_CACHE": str(work / "cache"),
        **order.to_environment(),
    }
    with Path(order.results).with_suffix(".log").open("a") as log:
        child = subprocess.Popen(
            argv, cwd=work, env={**os.environ, **quiet, **ours}, stdout=log, stderr=log, start_new_session=True
        )
        slow = _wait(child, now, order.limit_s)
    case = now.read_text()
    if case:
        words = "the process had to be ended" if slow else f"the process ended with {child.returncode}"
        result = Result(case, Kind.SLOW if slow else Kind.CRASHED, words, 0, 0, 0)
        with Path(order.results).open("a") as file:
            file.write(result.to_line())
    elif slow:
        print(f"the cases for Keras {order.keras} were not collected in {_COLLECTION_S} s; none was run", file=sys.stderr)
    return bool(case)


def _wait(child: subprocess.Popen[bytes], now: Path, limit_s: float) -> bool:
    """Wait for the process. Return whether it had to be killed because a case or the collection took too long."""
    while child.poll() is None:
        time.sleep(0.5)
        # a case ends itself at its limit; this is for a case, or a tool of it, that hangs
        allowed = 10 * limit_s if now.read_text() else _COLLECTION_S
        if time.time() - now.stat().st_mtime > allowed:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return True
    return False


if __name__ == "__main__":
    sys.exit(main())
