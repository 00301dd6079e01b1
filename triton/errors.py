# SPDX-License-Identifier: Apache-2.0
"""Errors of the backend for tritonserver. Each message says what to do."""

from __future__ import annotations


class TritonError(Exception):
    """Base class of the errors of triton/."""


class BackendCompileError(TritonError):
    """The backend cannot be compiled."""


class BackendInstallError(TritonError):
    """The backend's library cannot be written to the backend directory."""


class TritonServerNotFoundError(TritonError):
    """No tritonserver is on this machine, and none can be downloaded."""
