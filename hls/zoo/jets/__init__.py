# SPDX-License-Identifier: Apache-2.0
"""Jet tagging, the network of the hls4ml tutorial: 16 substructure observables -> gluon, light quark, W, Z or top."""
