# SPDX-License-Identifier: Apache-2.0
"""The real server and ours side by side on equal repositories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from tests.reference import environment, repository
from tests.reference.pair import Pairs, pairs
from tests.support.environments import Program


@pytest.fixture(scope="session")
def reference() -> Program:
    """The real server's program, or the reason why there is none."""
    return environment.tritonserver()


@pytest.fixture(scope="session")
def on_main(reference: Program, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pairs]:
    """Both on repository.MAIN."""
    with closing(pairs(tmp_path_factory, repository.MAIN)) as servers:
        yield servers


@pytest.fixture(scope="session")
def on_broken(reference: Program, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pairs]:
    """Both on repository.BROKEN, every model loaded on demand; nothing but `good` works."""
    with closing(pairs(tmp_path_factory, repository.BROKEN, "--model-control-mode=explicit", "--load-model=*")) as servers:
        yield servers


@pytest.fixture
def pair(on_main: Pairs, record_property: Callable[[str, object], None]) -> Iterator[Pairs]:
    """on_main; a crash of the reference during the test is reported in the summary of the run."""
    yield from _reported(on_main, record_property)


@pytest.fixture
def controlled(on_broken: Pairs, record_property: Callable[[str, object], None]) -> Iterator[Pairs]:
    """on_broken, with the same report."""
    yield from _reported(on_broken, record_property)


def _reported(made: Pairs, record_property: Callable[[str, object], None]) -> Iterator[Pairs]:
    before = len(made.crashes)
    yield made
    made.has_crashed()
    for crash in made.crashes[before:]:
        record_property("noteworthy", crash)
