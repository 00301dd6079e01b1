# SPDX-License-Identifier: Apache-2.0
"""The version of the model that the parts of a call, or all events of a map, have in common."""

from __future__ import annotations

import threading
from typing import Literal

#: "one": all answers are of one version, that of the first answer; "mixed": each may be of another version
Versions = Literal["one", "mixed"]


class VersionPin:
    """The version that the next attempts ask for. Any thread may use it.

    Args:
        version: the caller's; "": that of the first answer, unless `mixed`.
        mixed: each answer may be of another version.
    """

    def __init__(self, version: str = "", *, mixed: bool = False) -> None:
        self._version, self._mixed, self._given = version, mixed, version
        self._lock = threading.Lock()

    @property
    def version(self) -> str:
        """The version to ask for; "" is any."""
        return self._version

    @property
    def from_answer(self) -> bool:
        """Whether an answer has set the version, and not the caller."""
        return bool(self._version) and not self._given

    def accept(self, version: str) -> bool:
        """Return whether an answer of this version fits the answers before it. The first one sets the version."""
        if self._mixed or not version:
            return True
        with self._lock:
            self._version = self._version or version
            return version == self._version
