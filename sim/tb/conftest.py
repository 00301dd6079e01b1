# SPDX-License-Identifier: Apache-2.0
"""A bench with CASES gets the fixture `bench`, which simulates them side by side; its tests with `case` run for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hypersonic.sim.stream_bench import StreamBench


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", metafunc.module.CASES, ids=lambda case: getattr(case, "name", str(case)))


@pytest.fixture(scope="module")
def bench(request: pytest.FixtureRequest) -> Iterator[StreamBench]:
    with StreamBench([case.dut() for case in request.module.CASES]) as opened:
        yield opened
