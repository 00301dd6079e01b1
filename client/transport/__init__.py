# SPDX-License-Identifier: Apache-2.0
"""Calls of a server: the interface, and its implementation with grpcio."""
