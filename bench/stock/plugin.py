# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that runs hls4ml's own test cases with our backend. bench/stock/run.py starts pytest with it.

Each case's result is appended to a file of JSON lines as it ends.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from bench.stock.cases import Kind, Result, key_of, place_of, read_results, uncounted, words_of
from bench.stock.keras_2 import use_keras_2
from bench.stock.order import Order, order_in
from hypersonic.hls.cache import cache_directory
from hypersonic.hls.errors import ConversionError, ToolMemoryError

#: builds in the cache that only one case uses
_OF_A_CASE = ("rtl", "csim", "csim_object")


class TooSlowError(BaseException):
    """A case took more processor time than its limit.

    Not an Exception, so that no code in between takes it for an ordinary failure.
    """


def pytest_configure(config: pytest.Config) -> None:
    """Prepare Keras and hls4ml before any test module imports them."""
    order = order_in(os.environ)
    if order.keras == 2:
        use_keras_2()
    config.pluginmanager.register(_Cases(order), "hypersonic-cases")


class _Cases:
    """Chooses the cases and their order, runs them, and writes their results."""

    def __init__(self, order: Order) -> None:
        from bench.stock.engine import Engine  # these import hls4ml, and with it `keras`
        from bench.stock.packages import adapt_packages
        from bench.stock.replaced import replace_backends

        self.order = order
        adapt_packages()
        self.begin = replace_backends(Engine(rtl=order.rtl))
        self.failure: BaseException | None = None
        self.begun_cpu_s = 0.0
        signal.signal(signal.SIGALRM, self._watch)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Deselect the cases of other backends, and one of each pair of cases for Vivado and Vitis."""
        done = {result.case for result in read_results(Path(self.order.results))}
        chosen: dict[str, pytest.Item] = {}
        left_out = {}
        for item in items:
            values = [str(value) for value in item.callspec.params.values()] if hasattr(item, "callspec") else []
            case = key_of(item.nodeid)
            if why := uncounted(item.nodeid, values):
                left_out[case] = why
            else:
                chosen[case] = item
        if not self.order.only:
            self.order.listed.write_text(json.dumps({"counted": sorted(chosen), "not counted": left_out}, indent=0))
        asked = self.order.only or chosen
        wanted = [case for case in asked if case not in done and case in chosen and self.order.takes(case)]
        items[:] = [chosen[case] for case in sorted(wanted, key=place_of)]

    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> None:
        """Keep the first exception of a case."""
        if call.excinfo is not None and self.failure is None:
            self.failure = call.excinfo.value

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run one case; if it crashes, run it with hls4ml's own backend too, to see whether that also fails."""
        if time.time() > self.order.until:
            item.session.shouldstop = "the time is over"
            return True
        case, begun, cpu_s = key_of(item.nodeid), time.monotonic(), _cpu_s()
        Path(self.order.now).write_text(case)
        seen = self._run(item, nextitem, replaced=True)
        kind, words = _end(seen, self.failure)
        if kind is Kind.CRASHED:
            self._run(item, nextitem, replaced=False)
            if isinstance(self.failure, TooSlowError):
                kind = Kind.SLOW
            elif self.failure is not None:
                kind = Kind.EQUAL if seen.compared else Kind.THEIRS
                words = f"hls4ml's own backend fails too: {words_of(self.failure)}"
        result = Result(case, kind, words, seen.rows, round(time.monotonic() - begun, 1), round(_cpu_s() - cpu_s, 1))
        with Path(self.order.results).open("a") as file:
            file.write(result.to_line())
        print(f"\n{kind.value:10} {result.seconds:6} s  {case}  {words[:200]}", flush=True)
        Path(self.order.now).write_text("")
        _clean(item.path.parent)
        return True

    def _run(self, item: pytest.Item, nextitem: pytest.Item | None, *, replaced: bool) -> Any:
        seen = self.begin(replaced)
        self.failure = None
        item._initrequest()  # type: ignore[attr-defined] # fresh fixtures for a second run
        self.begun_cpu_s = _cpu_s()
        signal.setitimer(signal.ITIMER_REAL, 1, 1)
        try:
            runtestprotocol(item, log=False, nextitem=nextitem)
        except TooSlowError as error:
            self.failure = error
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return seen

    def _watch(self, *_: Any) -> None:
        if _cpu_s() - self.begun_cpu_s > self.order.limit_s:
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise TooSlowError


def _end(seen: Any, failure: BaseException | None) -> tuple[Kind, str]:
    """Return how a case ended with our backend, and a description."""
    if seen.differences:
        return Kind.DIFFERENT, "; ".join(seen.differences)
    if failure is None:
        return (Kind.EQUAL, "") if seen.compared else (Kind.UNASKED, "the case asks for no answers")
    if isinstance(failure, TooSlowError):
        return Kind.SLOW, "more processor time than the limit"
    if isinstance(failure, ConversionError | ToolMemoryError):
        return Kind.REFUSED, words_of(failure)
    if not seen.converted:
        return Kind.UNASKED, f"no model was made: {words_of(failure)}"
    return Kind.CRASHED, words_of(failure)


def _cpu_s() -> float:
    """Return the processor time of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _clean(tests: Path) -> None:
    """Remove what a case wrote."""
    for path in tests.iterdir():
        if (path / "firmware").is_dir() or path.name.startswith(("hls4mlprj", "hls4ml_prj")):
            shutil.rmtree(path, ignore_errors=True)
    for kind in _OF_A_CASE:
        shutil.rmtree(cache_directory() / kind, ignore_errors=True)
