# SPDX-License-Identifier: Apache-2.0
"""A scripted server with the model `double`, and a client of it, for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hypersonic.client import Client
from tests.support.scripted_server import Script, scripted_server


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with scripted_server(Script()) as address, Client(address) as made:
        yield made
