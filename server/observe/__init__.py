# SPDX-License-Identifier: Apache-2.0
"""The operator's view of the server: metrics, the status page, traces and the log."""
