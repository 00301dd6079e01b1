# SPDX-License-Identifier: Apache-2.0
"""What an operator sees of the server: metrics, traces, the status page."""
