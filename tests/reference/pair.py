# SPDX-License-Identifier: Apache-2.0
"""The real server and ours on equal repositories."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.reference import repository, servers
from tests.reference.restarting import Restarting
from tests.reference.wire import Wire


class Side(NamedTuple):
    """One of the two: its front ends and the repository it serves."""

    wire: Wire
    repository: Path


class Pair(NamedTuple):
    """Theirs and ours."""

    triton: Side
    hypersonic: Side


#: when the real server crashes, both are started again: neither has seen what the other has not
Pairs = Restarting[Pair]


def pairs(factory: pytest.TempPathFactory, models: repository.Models, *options: str) -> Pairs:
    """Both on these models, in directories of their own."""

    @contextmanager
    def start() -> Iterator[Pair]:
        with ExitStack() as stack:
            yield Pair(*(_side(stack, each, factory, models, *options) for each in (servers.triton, servers.hypersonic)))

    return Restarting(start, lambda pair: pair.triton.wire.served)


def _side(
    stack: ExitStack, start: servers.Start, factory: pytest.TempPathFactory, models: repository.Models, *options: str
) -> Side:
    directory = factory.mktemp(start.__name__)
    written = repository.write(directory / "models", models)
    served = stack.enter_context(start(directory, written, *options))
    wire = Wire(served)
    stack.callback(wire.close)
    return Side(wire, written)
