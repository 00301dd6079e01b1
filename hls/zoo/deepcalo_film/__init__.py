# SPDX-License-Identifier: Apache-2.0
"""DeepCalo with scalars and tracks, which scale and shift the image's feature maps (FiLM); see hls/zoo/deepcalo."""
