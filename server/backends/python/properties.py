# SPDX-License-Identifier: Apache-2.0
"""The properties of backend "python"."""

from __future__ import annotations

from hypersonic.server.core.config.backends import BackendProperties

PYTHON = BackendProperties("python", "model.py", runs_code=True)
