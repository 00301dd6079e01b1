# SPDX-License-Identifier: Apache-2.0
"""Which reuse factors make an rf core fill, and fit, a card."""
