# SPDX-License-Identifier: Apache-2.0
"""What the gRPC and HTTP front ends share: inference, the other calls, and the counts of refused calls."""
