# SPDX-License-Identifier: Apache-2.0
"""FACILE from packed rows of ADC codes, which become charges inside the fabric. The network is facile's."""
