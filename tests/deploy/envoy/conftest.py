# SPDX-License-Identifier: Apache-2.0
"""Three servers that several tests share; tests that stop servers start their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.deploy.envoy.farm import servers, write_rows
from tests.support import environments
from tests.support.server_program import Program


@pytest.fixture(scope="session", autouse=True)
def real_envoy() -> None:
    """Skip the tests if Envoy cannot be installed."""
    environments.envoy()


@pytest.fixture(scope="package")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Program]]:
    """Three equal servers."""
    repository = write_rows(tmp_path_factory.mktemp("models") / "repository", delay_ms=1)
    with servers(repository, repository, repository) as running:
        yield running
