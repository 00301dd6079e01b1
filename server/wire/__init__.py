# SPDX-License-Identifier: Apache-2.0
"""gRPC and HTTP, the service that both share, and the authorisation of calls."""
