# SPDX-License-Identifier: Apache-2.0
"""DeepCalo: the energy of an electron or photon from an image of its shower in a four-layer barrel calorimeter."""
