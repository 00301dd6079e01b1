# SPDX-License-Identifier: Apache-2.0
"""How much of the server each client may hold: memory, places, connections, threads, time."""
