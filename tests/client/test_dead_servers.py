# SPDX-License-Identifier: Apache-2.0
"""Servers that are all dead are not asked more often than the retry budget allows."""

from __future__ import annotations

import numpy as np
import pytest

from hypersonic.client import AllServersFailedError, Backoff, Client, Retry


def test_1000_requests_to_dead_servers_make_1100_attempts_and_each_error_lists_its_own() -> None:
    attempts = 0
    retry = Retry(backoff=Backoff(base_s=0.001, cap_s=0.001))
    with Client(["127.0.0.1:1", "127.0.0.1:2"], retry=retry) as client:
        model = client.model("facile")
        for _ in range(1000):
            with pytest.raises(AllServersFailedError) as error:
                model.infer(np.zeros((1, 18), np.float32))
            assert error.value.attempts
            assert all(one.code.name == "UNAVAILABLE" for one in error.value.attempts)
            attempts += len(error.value.attempts)
    assert attempts == 1100, "one for each request, and the 100 tokens of the budget"
