# SPDX-License-Identifier: Apache-2.0
"""Keras 2 and QKeras models on their way into hls4ml."""
