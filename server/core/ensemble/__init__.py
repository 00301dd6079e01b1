# SPDX-License-Identifier: Apache-2.0
"""Models that are composed of other models."""
