# SPDX-License-Identifier: Apache-2.0
"""FACILE v2 with 8-bit weights and 12-bit activations, trained as such, for the core that unrolls every weight into adders.

hypersonic.hls.zoo.facile_v2.train trains it and writes its weights.
"""
