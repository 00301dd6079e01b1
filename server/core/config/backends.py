# SPDX-License-Identifier: Apache-2.0
"""BackendProperties: the facts about a backend that configurations, load requests and the repository need.

They are known without importing the backend.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from types import MappingProxyType


@dataclass(frozen=True)
class BackendProperties:
    """The properties of one backend. Each backend declares its own in its folder; server/backends/known.py lists them.

    Attributes:
        name: `backend` in config.pbtxt.
        model_file: the file in a version's directory, unless default_model_filename names another; the backend is inferred from
            it if config.pbtxt does not name one.
        platform: `platform` in config.pbtxt, "" = none.
        on_card: its models run on cards of the host, and their files drive a card's DMA. A backend without it has no devices to
            choose from, and KIND_GPU is refused.
        runs_code: the model file is code that runs as the server's user.
    """

    name: str
    model_file: str
    platform: str = ""
    on_card: bool = False
    runs_code: bool = False

    @property
    def suffix(self) -> str:
        """The suffix of the model file, for example ".xclbin"."""
        return PurePath(self.model_file).suffix


#: name -> properties, in the order in which the backends' model files are looked for
Backends = Mapping[str, BackendProperties]
NO_BACKENDS: Backends = MappingProxyType({})
