# SPDX-License-Identifier: Apache-2.0
"""DeepClean: from what watches an interferometer, the noise that leaks into its strain."""
