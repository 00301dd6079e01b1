# SPDX-License-Identifier: Apache-2.0
"""Rules for the whole test suite: how many workers it has, which tests run in which tier, and what its summary says.

In CI a skipped test counts as failed, because every optional program is installed there. What is in no package may be missing.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.support.optional import NOT_IN_ANY_PACKAGE, enabling
from tests.support.slow import is_long, is_slow
from tests.support.whole import CHOICES, group_of, is_wanted, record_passed

#: a worker that has loaded TensorFlow and runs Verilator and g++ takes about so much
WORKER_BYTES = 2_500_000_000

#: an emulated card replaces its xclbin at once; for the tests' processes and all that they start
os.environ["HYPERSONIC_EMU_LOAD_MS"] = "0"

# an example may take as long as it needs: other tests run beside it
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

#: collected tests, and those of them that are left after deselection
COUNTS = pytest.StashKey[dict[str, int]]()

#: group of tests/support/whole.py -> the number of its tests that were collected
GROUPS = pytest.StashKey[dict[str, int]]()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return three workers for two cores that this process may use, as far as the memory lasts.

    With one worker for each core, the cores are idle for a fifth of the time: tests wait for servers and for others' builds.
    """
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(-(-3 * len(os.sched_getaffinity(0)) // 2), memory_bytes // WORKER_BYTES))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --whole, which tests/support/whole.py explains, and --gate-level, for the benches in sim/tb."""
    parser.addoption("--gate-level", action="store_true", help="run benches of streams on netlists, and no others")
    parser.addoption("--whole", choices=CHOICES, default="none", help="which of the tests with the mark `whole` run")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Mark the tests of each tier before pytest's `-m` sees them, and count the tests before and after it."""
    collected = len(items)
    wanted: list[pytest.Item] = []
    groups = Counter[str]()
    for item in items:
        if is_slow(Path(item.path)):
            item.add_marker(pytest.mark.slow)
        if is_long(Path(item.path)):
            item.add_marker(pytest.mark.long)
        if mark := item.get_closest_marker("whole"):
            group = group_of(mark.args, Path(item.path), hours=item.get_closest_marker("hours") is not None)
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.long)
            item.user_properties.append(("whole", group))
            groups[group] += 1
            if not is_wanted(group, config.getoption("whole")):
                continue
        wanted.append(item)
    items[:] = wanted
    yield
    config.stash[COUNTS] = {"collected": collected, "selected": len(items)}
    config.stash[GROUPS] = {} if asks_for_part(config) else dict(groups)
    if (output := getattr(config, "workeroutput", None)) is not None:
        output["counts"], output["groups"] = config.stash[COUNTS], config.stash[GROUPS]


def asks_for_part(config: pytest.Config) -> bool:
    """Return whether only some tests of a module are collected, so that nothing is known of its other tests."""
    return any("::" in arg for arg in config.args) or bool(config.getoption("lf", default=False))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over the counts of a worker of pytest-xdist; all workers collect the same tests."""
    output = getattr(node, "workeroutput", {})
    if "groups" in output:
        node.config.stash[COUNTS], node.config.stash[GROUPS] = output["counts"], output["groups"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped test into a failed one in CI, where every optional part that is a package is installed."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and NOT_IN_ANY_PACKAGE not in str(report.longrepr):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """Show what tests left as `record_property("noteworthy", text)`, and at the end how many ran and what the skipped need."""
    reports = [each for many in terminalreporter.stats.values() for each in many if isinstance(each, pytest.TestReport)]
    notes = {f"{report.nodeid}: {text}" for report in reports for name, text in report.user_properties if name == "noteworthy"}
    if notes:
        terminalreporter.section("remarks")
        terminalreporter.write_line("\n".join(sorted(notes)))
    yield
    for line in enabling([reason_of(report) for report in terminalreporter.stats.get("skipped", ())]):
        terminalreporter.write_line(line)
    counts = terminalreporter.config.stash.get(COUNTS, None)
    if counts and counts["selected"] < counts["collected"]:
        ran = len({report.nodeid for report in reports})
        terminalreporter.write_line(f"{ran} of {counts['collected']} tests ran; `make test-all` runs all of them")
    passed = Counter(text for report in terminalreporter.stats.get("passed", ()) for text in whole_groups(report))
    record_passed(group for group, count in terminalreporter.config.stash.get(GROUPS, {}).items() if passed[group] == count)


def whole_groups(report: Any) -> list[str]:
    """Return the group of tests/support/whole.py that a report belongs to, if it has one."""
    return [str(text) for name, text in report.user_properties if name == "whole"]


def reason_of(report: Any) -> str:
    """Return the reason of a skipped test, from its report."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")
