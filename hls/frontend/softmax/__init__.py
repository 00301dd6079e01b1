# SPDX-License-Identifier: Apache-2.0
"""Tables and types of a softmax: whether its probabilities are right, how far off they are, and types that are correct."""
