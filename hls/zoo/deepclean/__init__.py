# SPDX-License-Identifier: Apache-2.0
"""DeepClean: the noise in an interferometer's strain, predicted from witness channels that monitor the detector."""
