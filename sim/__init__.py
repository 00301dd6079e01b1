# SPDX-License-Identifier: Apache-2.0
"""The card without a card: XRT's C functions over a Verilated kernel."""
