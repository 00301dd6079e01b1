# SPDX-License-Identifier: Apache-2.0
"""The transport of rpc/transport.py, built on grpcio. Nothing else below rpc/ imports grpc."""
