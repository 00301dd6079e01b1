# SPDX-License-Identifier: Apache-2.0
"""In CI a skipped test is a failed one: every optional part is installed there. And what passed with a remark is shown."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What a test or its fixture left as record_property("noteworthy", text): the reference server ended by itself."""
    ended = [
        report for reports in terminalreporter.stats.values() for report in reports if isinstance(report, pytest.TestReport)
    ]
    notes = {f"{report.nodeid}: {text}" for report in ended for name, text in report.user_properties if name == "noteworthy"}
    if notes:
        terminalreporter.section("remarks")
        terminalreporter.write_line("\n".join(sorted(notes)))
