# SPDX-License-Identifier: Apache-2.0
"""ParticleNet for AK4 jets: k-nearest-neighbour graphs, which hls4ml has no layers for; run by onnxruntime."""
