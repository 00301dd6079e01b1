# SPDX-License-Identifier: Apache-2.0
"""An LSTM that tells top quarks from other jets by their twenty hardest particles, one after the other."""
