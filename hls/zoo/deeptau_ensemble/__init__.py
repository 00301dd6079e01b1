# SPDX-License-Identifier: Apache-2.0
"""DeepTau as an ensemble: cells travel as lists, and only those that have something in them."""
