# SPDX-License-Identifier: Apache-2.0
"""Limits on what each client may hold: memory, requests in progress, connections, threads, time."""
