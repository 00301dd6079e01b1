# SPDX-License-Identifier: Apache-2.0
"""The jet tagger without its softmax, for cores without one. Its outputs are the logits, which rank the classes alike.

It has the weights of hypersonic.hls.zoo.jets, whose training writes both files.
"""
