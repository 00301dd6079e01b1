# SPDX-License-Identifier: Apache-2.0
"""The search for the reuse factors with which an rf core fills a card without exceeding it."""
