# SPDX-License-Identifier: Apache-2.0
"""Models that compete for a card's PCIe link or for a compute unit: whose turn it is."""
