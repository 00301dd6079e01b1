# SPDX-License-Identifier: Apache-2.0
"""The real server and ours side by side on equal repositories."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.reference import environment, repository, servers
from tests.reference.wire import Wire


class Side(NamedTuple):
    """One of the two: its front ends and the repository it serves."""

    wire: Wire
    repository: Path


class Pair(NamedTuple):
    """Theirs and ours."""

    triton: Side
    hypersonic: Side


@pytest.fixture(scope="session")
def reference() -> environment.Program:
    """The real server's program, or the reason why there is none."""
    try:
        return environment.tritonserver()
    except environment.UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def pair(reference: environment.Program, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both on repository.MAIN."""
    with ExitStack() as stack:
        yield Pair(*(_side(stack, start, tmp_path_factory, repository.MAIN) for start in (servers.triton, servers.hypersonic)))


@pytest.fixture(scope="session")
def controlled(reference: environment.Program, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both on repository.BROKEN, every model loaded on demand; nothing but `good` works."""
    options = ("--model-control-mode=explicit", "--load-model=*")
    with ExitStack() as stack:
        yield Pair(
            *(_side(stack, s, tmp_path_factory, repository.BROKEN, *options) for s in (servers.triton, servers.hypersonic))
        )


def _side(
    stack: ExitStack, start: servers.Start, factory: pytest.TempPathFactory, models: repository.Models, *options: str
) -> Side:
    directory = factory.mktemp(start.__name__)
    written = repository.write(directory / "models", models)
    served = stack.enter_context(start(directory, written, *options))
    wire = Wire(served)
    stack.callback(wire.close)
    return Side(wire, written)
