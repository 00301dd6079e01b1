# SPDX-License-Identifier: Apache-2.0
"""The properties of backend "fpga"."""

from __future__ import annotations

from hypersonic.server.core.config.backends import BackendProperties

FPGA = BackendProperties("fpga", "model.xclbin", on_card=True)
