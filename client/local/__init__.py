# SPDX-License-Identifier: Apache-2.0
"""A server on this host, for a fallback: LocalServer (server.py), its process (process.py) and the process's supervisor."""
