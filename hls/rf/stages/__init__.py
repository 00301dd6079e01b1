# SPDX-License-Identifier: Apache-2.0
"""The stages of an rf core, one file per kind: the layer, how it is read from hls4ml's graph, and its RTL."""
