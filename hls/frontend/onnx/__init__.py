# SPDX-License-Identifier: Apache-2.0
"""The front end for ONNX and QONNX models."""
