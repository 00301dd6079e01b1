# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests of the model repository: a backend in memory and a function that opens a repository."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hypersonic.server.core.scheduling.model import ScheduledModel
from hypersonic.server.repository.control_mode import ModelControlMode, ModelControlOptions
from hypersonic.server.repository.models import ModelRepository
from tests.server.repository.opened_repository import Open
from tests.server.shift_backend import ShiftBackend

EXPLICIT = ModelControlOptions(ModelControlMode.EXPLICIT)


@pytest.fixture
def backend() -> ShiftBackend:
    return ShiftBackend()


@pytest.fixture
def opened(tmp_path: Path, backend: ShiftBackend) -> Iterator[Open]:
    """opened(control=..., backend=...): a repository on tmp_path, closed at the end."""
    repositories = []

    def start(control: ModelControlOptions = EXPLICIT, backend: ShiftBackend = backend) -> ModelRepository:
        repositories.append(ModelRepository([tmp_path], {"sum": backend, "fpga": backend}, ScheduledModel, control=control))
        repositories[-1].load_all()
        return repositories[-1]

    yield start
    for repository in repositories:
        assert repository.close(30)
