# SPDX-License-Identifier: Apache-2.0
"""A reference that ends by itself is started again, both servers are asked again, and this is reported; no difference is lost."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.reference import repository
from tests.reference.cases.infer import good
from tests.reference.compare import check
from tests.reference.pair import Side, pairs
from tests.reference.restarting import ReferenceCrashedError
from tests.reference.wire import message
from tests.support.environments import Program

pytestmark = pytest.mark.whole("client", "server", "tests/reference")

pytest_plugins = ["pytester"]
ONE = {"addsub": repository.addsub("FP32")}
HOW = "triton ended by itself with signal SIGSEGV; its log ends: "


def crash(side: Side) -> None:
    """As if by a fault of its own; nothing where the server is ours."""
    if side.wire.served.name == "triton":
        side.wire.served.process.send_signal(signal.SIGSEGV)
        side.wire.served.process.wait()


def asked(side: Side) -> object:
    return side.wire.infer(message("addsub", good()))["outputs"]


def fails_once() -> Callable[[Side], object]:
    before: list[str] = []

    def case(side: Side) -> object:
        if side.wire.served.name not in before:
            before.append(side.wire.served.name)
            crash(side)
        return asked(side)

    return case


def test_both_servers_are_started_and_asked_again_after_a_crash_but_once_only(
    reference: Program, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with closing(pairs(tmp_path_factory, ONE)) as servers:
        check(servers, {"an answer": asked, "a crash": fails_once()})
        assert [each[: len(HOW)] for each in servers.crashes] == [HOW]
        with pytest.raises(AssertionError, match="these differ"):
            check(servers, {"its name": lambda side: side.wire.served.name})
        assert len(servers.crashes) == 1
        first = servers.running()
        crash(first.triton)
        check(servers, {"an answer": asked})
        assert len(servers.crashes) == 2
        assert None not in {side.wire.served.process.poll() for side in first}
        assert {side.wire.served.process.poll() for side in servers.running()} == {None}
        with pytest.raises(ReferenceCrashedError, match=f"crashed twice, so nothing is compared: {HOW}.*; {HOW}"):
            check(servers, {"a crash": crash})


def test_a_crash_stands_in_the_runs_summary_though_the_test_passed(pytester: pytest.Pytester) -> None:
    pytester.makeconftest((Path(__file__).parents[2] / "conftest.py").read_text())
    pytester.makepyfile("""
        import pytest

        @pytest.fixture
        def noting(record_property):
            yield
            record_property("noteworthy", "triton ended by itself")

        def test_passes(noting): ...
        def test_says_nothing(): ...
    """)
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-n", "2")
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(["*= remarks =*", "*::test_passes: triton ended by itself"])
    done.stdout.no_fnmatch_line("*::test_says_nothing: *")
