# SPDX-License-Identifier: Apache-2.0
"""Simulation: an emulated card behind XRT's C functions, small cores of known results, lint and timing of the RTL."""
