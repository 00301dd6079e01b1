# SPDX-License-Identifier: Apache-2.0
"""Capacity planning, for `hypersonic plan`: the rate and latency that a farm of clients gets from a number of cards."""
