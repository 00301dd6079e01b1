# SPDX-License-Identifier: Apache-2.0
"""How far a network is from the trained model."""
