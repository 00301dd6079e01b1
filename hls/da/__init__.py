# SPDX-License-Identifier: Apache-2.0
"""The da core: a network unrolled into adders (distributed arithmetic), which takes one row per clock."""
