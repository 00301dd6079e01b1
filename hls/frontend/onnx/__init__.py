# SPDX-License-Identifier: Apache-2.0
"""ONNX and QONNX models on their way into hls4ml."""
