# SPDX-License-Identifier: Apache-2.0
"""The backends that this server knows, one line for each. server/app.py creates them."""

from __future__ import annotations

from types import MappingProxyType

from hypersonic.server.backends.fpga.properties import FPGA
from hypersonic.server.backends.onnxruntime.properties import ONNXRUNTIME
from hypersonic.server.backends.python.properties import PYTHON
from hypersonic.server.core.config.backends import Backends

BACKENDS: Backends = MappingProxyType({properties.name: properties for properties in (ONNXRUNTIME, PYTHON, FPGA)})
