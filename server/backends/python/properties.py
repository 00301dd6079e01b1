# SPDX-License-Identifier: Apache-2.0
"""The properties of backend "python"."""

from __future__ import annotations

from hypersonic.server.config.backends import BackendProperties

PYTHON = BackendProperties("python", "model.py", runs_code=True)
