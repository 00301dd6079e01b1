# SPDX-License-Identifier: Apache-2.0
"""The parts of Client and Model that columns need, as protocols: any object with them will do, also one of a test."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from hypersonic.client.attempts.request import Result
from hypersonic.client.servers import Server
from hypersonic.client.specs import ModelSpec


class ServedModel(Protocol):
    """A model on the servers of a client, such as client.Model."""

    @property
    def spec(self) -> ModelSpec:
        """Its description."""

    def submit(self, inputs: Any) -> Future[Result]:
        """Start a request with arrays by name; wait while the client's limits are reached."""


class Serving(Protocol):
    """A client, such as client.Client."""

    @property
    def servers(self) -> Sequence[Server]:
        """Its servers."""

    def model(self, name: str, version: str = "") -> ServedModel:
        """Return a model. version: "" is the server's choice."""
