# SPDX-License-Identifier: Apache-2.0
"""The compiler side: converts a trained model into an HLS project and an RTL core."""
