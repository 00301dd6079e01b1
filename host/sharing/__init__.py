# SPDX-License-Identifier: Apache-2.0
"""Arbitration between models that compete for a card's PCIe link or for a compute unit."""
