# SPDX-License-Identifier: Apache-2.0
"""Clients of a running server. They depend on the protocol only, not on the rest of this project."""
