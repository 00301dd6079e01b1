# SPDX-License-Identifier: Apache-2.0
"""A trained network as hls4ml's C++ computes it, bit for bit: one class for each layer, read from hls4ml's ModelGraph."""
