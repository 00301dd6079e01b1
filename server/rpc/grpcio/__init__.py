# SPDX-License-Identifier: Apache-2.0
"""The transport of rpc/transport.py on grpcio: nothing else below rpc/ imports grpc."""
