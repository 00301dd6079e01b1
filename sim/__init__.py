# SPDX-License-Identifier: Apache-2.0
"""Simulation: an emulated card behind XRT's C functions, cocotb benches, and the lint of the RTL."""
