# SPDX-License-Identifier: Apache-2.0
"""gRPC calls to one server: the interface, and its implementation with grpcio."""
