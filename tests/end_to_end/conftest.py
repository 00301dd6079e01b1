# SPDX-License-Identifier: Apache-2.0
"""Fixtures of other folders that tests here use: the emulated card's kernel, and servers with a backend in memory."""

from __future__ import annotations

from tests.host.conftest import build, image
from tests.server.conftest import serve

__all__ = ["build", "image", "serve"]
