# SPDX-License-Identifier: Apache-2.0
"""DeepCalo: the energy of an electron or photon from images of its shower in the layers of a barrel calorimeter."""
