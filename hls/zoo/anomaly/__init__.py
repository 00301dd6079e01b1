# SPDX-License-Identifier: Apache-2.0
"""An autoencoder for a trigger on anomalies: the energies and directions of an event's objects in, an anomaly score out."""
