# SPDX-License-Identifier: Apache-2.0
"""FACILE: the energy of every HCAL barrel and endcap channel of an event, 18 numbers in, GeV out."""
