# SPDX-License-Identifier: Apache-2.0
"""The folders and files that the proofs depend on."""

from __future__ import annotations

COVERED = ("firmware/formal", "firmware/rtl", "hls/rtl", "requirements.lock")
