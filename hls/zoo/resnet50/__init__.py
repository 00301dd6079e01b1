# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 as FaaST served it: 224 x 224 x 3 pixels -> 1000 logits. The weights are drawn from a seed, not trained."""
