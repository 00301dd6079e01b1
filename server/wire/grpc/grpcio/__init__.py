# SPDX-License-Identifier: Apache-2.0
"""The transport of wire/grpc/transport.py, built on grpcio. Nothing else below wire/grpc/ imports gRPC."""
