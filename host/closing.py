# SPDX-License-Identifier: Apache-2.0
"""Closing: the base of objects that hold handles of a driver."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Self

from hypersonic.host.errors import DeviceClosedError


class Closing:
    """An object that is closed once, and can be used as a context manager."""

    def __init__(self) -> None:
        self._closing = ExitStack()
        self.closed = False

    def close(self) -> None:
        """Release everything in reverse order. A second call does nothing."""
        self.closed = True
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _require_open(self, what: str) -> None:
        if self.closed:
            raise DeviceClosedError(f"{what} is closed")
