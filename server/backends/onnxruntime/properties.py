# SPDX-License-Identifier: Apache-2.0
"""The properties of backend "onnxruntime"."""

from __future__ import annotations

from hypersonic.server.core.config.backends import BackendProperties

ONNXRUNTIME = BackendProperties("onnxruntime", "model.onnx", platform="onnxruntime_onnx")
