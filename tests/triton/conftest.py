# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests that both servers have to pass."""

from __future__ import annotations

import pytest

from tests.host.conftest import cards, image, sysfs, weighted  # noqa: F401 - fixtures
from tests.support.both_servers import STARTS, Start


@pytest.fixture(params=STARTS)
def start(request: pytest.FixtureRequest) -> Start:
    """start(*options, environment={}): a running server."""
    return STARTS[request.param]
