# SPDX-License-Identifier: Apache-2.0
"""The emulated cards: simulators in the place of bitstreams, and the programs that drive them."""
