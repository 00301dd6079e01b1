# SPDX-License-Identifier: Apache-2.0
"""Memory is bounded: the number of chunks that are alive at any time, however many a file has."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from hypersonic.client import Client
from hypersonic.client.columns import Chunk, Column, infer_chunks, open_source
from hypersonic.client.columns.ahead import AHEAD, read_ahead
from hypersonic.client.columns.infer import SENT
from tests.client.columns.files_of_events import mapping
from tests.support.waiting import wait_until


class Counting:
    """A source of many chunks that counts those whose arrays are alive."""

    name, kind = "many", "memory"
    events: int | None = 200
    columns: tuple[str, ...] = ("H_a", "H_b", "H_c", "H_d")

    def __init__(self) -> None:
        self.alive = self.most = 0
        self.lock = threading.Lock()

    def chunks(self, columns: Sequence[str], chunk_bytes: int) -> Iterator[Chunk]:
        for first in range(self.events or 0):
            counts = np.array([20], np.int64)
            with self.lock:
                self.alive += 1
                self.most = max(self.most, self.alive)
            weakref.finalize(counts, self.ended)
            yield Chunk(first, 1, {name: Column(np.full(20, first, np.float32), counts) for name in columns})
            del counts

    def ended(self) -> None:
        with self.lock:
            self.alive -= 1

    def identity(self) -> str:
        return ""

    def close(self) -> None:
        pass


def test_only_a_few_chunks_are_alive(client: Client) -> None:
    source = Counting()
    gc.disable()
    try:
        for number, answered in enumerate(infer_chunks(client.model("double"), mapping(), source)):
            assert answered.chunk.columns["H_y0"].values.tolist() == [2.0 * number] * 20
        del answered
    finally:
        gc.enable()
    # those read ahead and those sent; one that the reader begins, one that the consumer has
    assert AHEAD + SENT <= source.most <= AHEAD + SENT + 2
    wait_until(lambda: source.alive <= 1)


def test_a_consumer_that_stops_ends_the_reader(client: Client) -> None:
    source = Counting()
    answers = infer_chunks(client.model("double"), mapping(), source)
    next(answers)
    answers.close()
    assert "columns-reader" not in {thread.name for thread in threading.enumerate()}
    assert source.most <= AHEAD + SENT + 2


def test_a_reader_is_at_most_two_ahead() -> None:
    made: list[int] = []

    def items() -> Generator[int, None, None]:
        for number in range(10):
            made.append(number)
            yield number

    with closing(read_ahead(items())) as ahead:
        assert next(ahead) == 0
        wait_until(lambda: len(made) == 1 + AHEAD)
        assert next(ahead) == 1
        wait_until(lambda: len(made) == 2 + AHEAD)
        assert list(ahead) == list(range(2, 10))


def test_an_error_of_the_reader_comes_after_the_items_before_it() -> None:
    def items() -> Generator[int, None, None]:
        yield 1
        raise ValueError("the file ends")

    seen: list[Any] = []
    with pytest.raises(ValueError, match="the file ends"):
        seen.extend(read_ahead(items()))
    assert seen == [1]


def test_chunks_have_about_the_bytes_that_are_asked(tmp_path: Any) -> None:
    data: dict[str, Any] = {"nH": np.full(100, 10), "H_a": np.zeros(1000, np.float32)}
    np.savez(tmp_path / "in.npz", **data)
    for source in (open_source(data), open_source(tmp_path / "in.npz")):
        sizes = [len(chunk.columns["H_a"].values) for chunk in source.chunks(["H_a"], 1000)]
        assert sum(sizes) == 1000
        assert max(sizes) * 4 <= 1000
        source.close()
