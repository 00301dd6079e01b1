# SPDX-License-Identifier: Apache-2.0
"""Compressed bodies: a few bytes of one client's are much work, which others do not wait for."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from hypersonic.server.limits.admission import Held
from hypersonic.server.wire.http import body as bodies
from tests.server.conftest import Serve


def test_compressed_bodies_of_one_address_are_decompressed_one_by_one_beside_anothers(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, decompress = threading.Semaphore(0), threading.Event(), bodies.decompress

    def waiting(body: memoryview, encoding: str, limit_bytes: int, held: Held) -> memoryview:
        begun.release()
        if "127.0.0.2" in held.client:
            assert go_on.wait(60)
        return decompress(body, encoding, limit_bytes, held)

    monkeypatch.setattr(bodies, "decompress", waiting)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    document = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [4, 3], "data": x.ravel().tolist()}]}
    packed = gzip.compress(json.dumps(document).encode())

    with serve() as running, ThreadPoolExecutor(8) as pool:

        def ask(source: str) -> int:
            host, port = running.http.removeprefix("http://").split(":")
            connection = http.client.HTTPConnection(host, int(port), timeout=60, source_address=(source, 0))
            with contextlib.closing(connection):
                connection.request("POST", "/v2/models/m/infer", packed, {"Content-Encoding": "gzip"})
                return connection.getresponse().status

        answers = [pool.submit(ask, "127.0.0.2") for _ in range(8)]
        try:
            assert begun.acquire(timeout=30)
            assert not begun.acquire(timeout=1), "two bodies of one address at a time"
            assert ask("127.0.0.3") == 200
        finally:
            go_on.set()
        assert [answer.result() for answer in answers] == [200] * 8
