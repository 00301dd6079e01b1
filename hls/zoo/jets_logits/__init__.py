# SPDX-License-Identifier: Apache-2.0
"""The jet tagger without its softmax, for cores that have none: its outputs are the logits, whose order is the classes' order.

The weights are those of hypersonic.hls.zoo.jets, whose training writes both files.
"""
