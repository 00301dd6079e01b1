# SPDX-License-Identifier: Apache-2.0
"""Send HTTP requests to a running server."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any

from tests.server.conftest import Running

INFER = "/v2/models/m/infer"


def ask(url: str, path: str, method: str = "GET", body: Any = None) -> tuple[int, str]:
    """(status, body). body: bytes, or what is sent as JSON."""
    connection = http.client.HTTPConnection(url.removeprefix("http://").split("/")[0], timeout=60)
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    try:
        connection.request(method, path, data)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def address(running: Running) -> str:
    return running.http.removeprefix("http://")


def post(
    running: Running, body: bytes | dict[str, Any], headers: Mapping[str, str] | None = None, path: str = INFER
) -> tuple[int, Mapping[str, str], bytes]:
    """(status, headers, body)."""
    connection = http.client.HTTPConnection(address(running), timeout=60)
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    try:
        connection.request("POST", path, data, dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()
