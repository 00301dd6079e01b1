# SPDX-License-Identifier: Apache-2.0
"""The network of a test, and the models of its servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.hosts.namespaces import Network, network, why_not
from tests.deploy.hosts.programs import write_models
from tests.support.optional import needs_root, require, skip


@pytest.fixture(scope="session")
def can_have_hosts() -> None:
    """Skip the tests where a process cannot make network namespaces."""
    require("ip", "iproute2")
    if reason := why_not():
        skip(needs_root() or f"needs network namespaces and /dev/net/tun: {reason}")


@pytest.fixture
def hosts(can_have_hosts: None) -> Iterator[Network]:
    """A switch without hosts."""
    with network() as made:
        yield made


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository of the servers."""
    return write_models(tmp_path_factory.mktemp("hosts") / "models")
