# SPDX-License-Identifier: Apache-2.0
"""The exception of load measurements."""

from __future__ import annotations

from hypersonic.client.errors import ClientError


class LoadError(ClientError):
    """A load cannot be offered or shown as asked, or every request failed."""
