# SPDX-License-Identifier: Apache-2.0
"""A bench with CASES gets the fixture `bench`, which simulates them side by side; its tests with `case` run for each.

With --gate-level, only these benches run, and on Yosys' netlists in place of the RTL.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.rtl.stream_bench import StreamBench


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--gate-level"):
        items[:] = [item for item in items if isinstance(item, pytest.Function) and "bench" in item.fixturenames]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", metafunc.module.CASES, ids=lambda case: getattr(case, "name", str(case)))


@pytest.fixture(scope="module")
def bench(request: pytest.FixtureRequest) -> Iterator[StreamBench]:
    gates = request.config.getoption("--gate-level")
    with StreamBench([case.dut() for case in request.module.CASES], gates=gates) as opened:
        yield opened
