# SPDX-License-Identifier: Apache-2.0
"""Requests and answers, independent of the front end that they came through."""
