# SPDX-License-Identifier: Apache-2.0
"""Fixtures of other folders that tests here use: the emulated card's kernel, and a certificate authority."""

from __future__ import annotations

from tests.host.conftest import build, image
from tests.server.wire.security.conftest import certificates

__all__ = ["build", "certificates", "image"]
