# SPDX-License-Identifier: Apache-2.0
"""The code that the gRPC and HTTP front ends share: inference and the other calls."""
