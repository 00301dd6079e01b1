# SPDX-License-Identifier: Apache-2.0
"""A server in this process, for plans that measure one."""

from __future__ import annotations

from tests.server.conftest import serve

__all__ = ["serve"]
