# SPDX-License-Identifier: Apache-2.0
"""The timing ledger: each module of the RTL, placed and routed on an ECP5 by open tools.

It shows which modules are slow and which grow, never a frequency on UltraScale+ (docs/timing.md).
"""
