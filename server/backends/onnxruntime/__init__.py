# SPDX-License-Identifier: Apache-2.0
"""Backend "onnxruntime": models in ONNX on the host's processors."""
