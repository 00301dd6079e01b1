# SPDX-License-Identifier: Apache-2.0
"""DeepCalo with scalars and tracks: the image's feature maps scaled and shifted by what they say; see hls/zoo/deepcalo."""
