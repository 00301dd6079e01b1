# SPDX-License-Identifier: Apache-2.0
"""Authorisation of calls: TLS, restricted protocol groups, bearer tokens, JWT. docs/security.md is the operator's page."""
