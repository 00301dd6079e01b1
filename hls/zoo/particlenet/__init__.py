# SPDX-License-Identifier: Apache-2.0
"""ParticleNet for AK4 jets, which needs k-nearest-neighbour layers that hls4ml does not have. The onnxruntime backend runs
it."""
