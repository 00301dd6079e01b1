# SPDX-License-Identifier: Apache-2.0
"""One sentence about the model: what goes in, what comes out. This example: the height of a pulse from 16 samples of it."""
