# SPDX-License-Identifier: Apache-2.0
"""The future of a call of several requests, whose parts end at the same time."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from hypersonic.client import Code, VersionGoneError
from hypersonic.client.joining import JoinedFuture


class SlowPart(Future[Any]):
    """A part that has failed; the other one ends while its failure is being read."""

    other: Future[Any]

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if not self.other.done():
            self.other.set_result("right")
        return super().exception(timeout)


def test_a_part_that_ends_while_another_one_fails_does_not_settle_the_call() -> None:
    failures: list[BaseException] = []

    def again(_joined: JoinedFuture, error: BaseException) -> bool:
        failures.append(error)
        return True  # the call is made again

    joined = JoinedFuture(2, lambda results: results[0], again)
    first, second = SlowPart(), Future[Any]()
    first.other = second
    joined.add(0, first)
    joined.add(1, second)
    gone = VersionGoneError("all servers", Code.NOT_FOUND, "version 1 is gone")
    first.set_exception(gone)
    assert failures == [gone]
    assert not joined.done()
    joined.restart(1)
    whole: Future[Any] = Future()
    joined.add(0, whole, joined.turn)
    whole.set_result("whole")
    made: Any = joined.result(0)
    assert made == "whole"
