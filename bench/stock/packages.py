# SPDX-License-Identifier: Apache-2.0
"""Lets hls4ml's test cases run with the packages of this environment, where they fail for reasons that are not hls4ml's."""

from __future__ import annotations

from typing import Any

import hls4ml
import onnx

#: a version of ONNX's format that onnxruntime reads. onnx writes its newest by default, which may be newer
_IR_VERSION = 9


def adapt_packages() -> None:
    """Write ONNX files that onnxruntime reads, and draw no pictures of models, which needs the program Graphviz."""
    onnx.IR_VERSION = _IR_VERSION
    hls4ml.utils.plot_model = _no_picture


def _no_picture(*_: Any, **__: Any) -> None:
    pass
