# SPDX-License-Identifier: Apache-2.0
"""FACILE v2 in weights of 8 bits and activations of 12, trained so, for a core that unrolls all of them into adders.

Its training is hypersonic.hls.zoo.facile_v2's, which writes both files.
"""
