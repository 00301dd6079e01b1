# SPDX-License-Identifier: Apache-2.0
"""A scripted server for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.scripted_server import Script, scripted_server


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def address(script: Script) -> Iterator[str]:
    with scripted_server(script) as running:
        yield running
