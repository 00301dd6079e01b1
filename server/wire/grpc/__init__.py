# SPDX-License-Identifier: Apache-2.0
"""gRPC: inference.GRPCInferenceService and grpc.health.v1."""
