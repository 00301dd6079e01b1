# SPDX-License-Identifier: Apache-2.0
"""FACILE: the energy in GeV of every HCAL barrel and endcap channel of an event, from 18 numbers per channel."""
