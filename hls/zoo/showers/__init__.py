# SPDX-License-Identifier: Apache-2.0
"""An interaction network that tells electrons from pions by the hits of a calorimeter shower, every pair of hits at once."""
