# SPDX-License-Identifier: Apache-2.0
"""A backend as configurations, load requests and the repository have to know it, without importing it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from types import MappingProxyType


@dataclass(frozen=True)
class BackendProperties:
    """Each backend declares its own, in its folder; server/backends/known.py lists them.

    name: config.pbtxt's `backend`. model_file: what a version holds, unless default_model_filename names another; it also tells
    the backend where config.pbtxt does not. platform: Triton's word for it, "" = none.
    on_card: its models choose among the cards of the host, and their files drive a card's DMA. Without it there is no device to
    choose (KIND_GPU means nothing). runs_code: the file is code, which runs as the server's user.
    """

    name: str
    model_file: str
    platform: str = ""
    on_card: bool = False
    runs_code: bool = False

    @property
    def suffix(self) -> str:
        """Of its model file, ".xclbin" for example."""
        return PurePath(self.model_file).suffix


#: by name, in the order in which a version's files are looked through
Backends = Mapping[str, BackendProperties]
NO_BACKENDS: Backends = MappingProxyType({})
