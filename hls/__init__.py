# SPDX-License-Identifier: Apache-2.0
"""A trained model -> an HLS project and an RTL core."""
