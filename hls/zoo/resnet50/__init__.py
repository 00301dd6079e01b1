# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 as FaaST served it: 224 x 224 x 3 -> 1000 logits; weights are seeded, not trained."""
