# SPDX-License-Identifier: Apache-2.0
"""The server without its front ends."""
