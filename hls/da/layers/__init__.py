# SPDX-License-Identifier: Apache-2.0
"""How the da core computes the layers of a network at once: each file has a family of layers and an UNROLL."""
