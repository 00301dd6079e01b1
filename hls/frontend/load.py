# SPDX-License-Identifier: Apache-2.0
"""Loads a model file as a TrainedModel, with the framework for its format, and finds the files with its weights."""

from __future__ import annotations

from pathlib import Path

from hypersonic.hls.frontend.hgq import uses_hgq
from hypersonic.hls.frontend.trained import TrainedModel


def data_beside(model_file: Path) -> list[str | bytes | Path]:
    """Return the files beside an ONNX file that hold its weights (external data); empty for other formats."""
    if model_file.suffix != ".onnx":
        return []
    from hypersonic.hls.frontend.onnx.graph import data_files

    return list(data_files(model_file))


def load_trained(model_file: Path) -> TrainedModel:
    """Load a .h5, .keras or .onnx file. Raises ConversionError for a file that cannot be read or a model that is refused."""
    if model_file.suffix == ".onnx":
        from hypersonic.hls.frontend.onnx.model import load_onnx

        return load_onnx(model_file)
    if uses_hgq(model_file):
        from hypersonic.hls.frontend.keras.hgq import load_hgq

        return load_hgq(model_file)
    from hypersonic.hls.frontend.keras.model import load_keras, use_keras_2

    use_keras_2()
    return load_keras(model_file)
