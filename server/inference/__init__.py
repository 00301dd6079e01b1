# SPDX-License-Identifier: Apache-2.0
"""Requests and answers, whichever front end they came through."""
