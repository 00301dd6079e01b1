# SPDX-License-Identifier: Apache-2.0
"""Rules for the whole test suite: how many workers it has, which tests are slow, and what its summary says.

In CI a skipped test counts as failed, because every optional program is installed there.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.support.slow import is_slow

#: a worker that has loaded TensorFlow and runs Verilator and g++ takes about so much
WORKER_BYTES = 2_500_000_000

#: an emulated card replaces its xclbin at once; for the tests' processes and all that they start
os.environ["HYPERSONIC_EMU_LOAD_MS"] = "0"

#: collected tests, and those of them that are left after deselection
COUNTS = pytest.StashKey[dict[str, int]]()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return three workers for two cores that this process may use, as far as the memory lasts.

    With one worker for each core, the cores are idle for a fifth of the time: tests wait for servers and for others' builds.
    """
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(-(-3 * len(os.sched_getaffinity(0)) // 2), memory_bytes // WORKER_BYTES))


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    """Mark slow tests before pytest's `-m` sees them, and count the tests before and after it."""
    collected = len(items)
    for item in items:
        if is_slow(Path(item.path)):
            item.add_marker(pytest.mark.slow)
    yield
    config.stash[COUNTS] = {"collected": collected, "selected": len(items)}
    if (output := getattr(config, "workeroutput", None)) is not None:
        output["counts"] = config.stash[COUNTS]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over the counts of a worker of pytest-xdist; all workers collect the same tests."""
    if counts := getattr(node, "workeroutput", {}).get("counts"):
        node.config.stash[COUNTS] = counts


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped test into a failed one in CI, where every optional part is installed."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what tests or fixtures left as `record_property("noteworthy", text)`, and how many of all tests ran."""
    reports = [each for many in terminalreporter.stats.values() for each in many if isinstance(each, pytest.TestReport)]
    notes = {f"{report.nodeid}: {text}" for report in reports for name, text in report.user_properties if name == "noteworthy"}
    if notes:
        terminalreporter.section("remarks")
        terminalreporter.write_line("\n".join(sorted(notes)))
    counts = terminalreporter.config.stash.get(COUNTS, None)
    if counts and counts["selected"] < counts["collected"]:
        ran = len({report.nodeid for report in reports})
        terminalreporter.write_line(f"{ran} of {counts['collected']} tests ran; `make test` runs all of them")
