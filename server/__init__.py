# SPDX-License-Identifier: Apache-2.0
"""The server: serves models on the cards of this host over Triton's protocol."""
