# SPDX-License-Identifier: Apache-2.0
"""Traces of requests, as files in Triton's JSON or as OpenTelemetry spans."""
