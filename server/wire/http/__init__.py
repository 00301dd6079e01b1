# SPDX-License-Identifier: Apache-2.0
"""The HTTP ports: inference and the other calls of Triton's HTTP protocol, and metrics."""
