# SPDX-License-Identifier: Apache-2.0
"""The search for the reuse factors that fill a card, and its tables and pictures."""
