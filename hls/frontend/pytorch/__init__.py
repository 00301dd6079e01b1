# SPDX-License-Identifier: Apache-2.0
"""The front end for PyTorch modules: an ONNX file beside the Python file that makes the module."""
