# SPDX-License-Identifier: Apache-2.0
"""Files of events get the same outputs from the real server and from ours."""

from __future__ import annotations

from pathlib import Path

import awkward as ak
import numpy as np
import pytest

from hypersonic.client import Client
from hypersonic.client.columns import infer_files
from tests.client.columns.files_of_events import SUFFIXES, make_events, mapping, read, write
from tests.reference import repository, servers
from tests.reference.repository import Model, tensors

pytestmark = pytest.mark.whole("client", "server", "tests/reference")

SUMS = Model("facile", "max_batch_size: 8\n" + tensors("input", "input_1 FP32 4") + tensors("output", "output FP32 1"))


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize("side", ["triton", "hypersonic"])
def test_every_kind_of_file_has_the_sums_of_its_rows(tmp_path: Path, side: str) -> None:
    events = make_events([0, 3, 1, 0, 17, 2, 0])
    expected = ak.to_list(sum(ak.values_astype(events["H"][name], np.float32) for name in "abcd"))
    written = repository.write(tmp_path / "models", {"sums": SUMS})
    with getattr(servers, side)(tmp_path, written) as served, Client(served.grpc) as client:
        for kind, suffix in SUFFIXES.items():
            file = write(kind, tmp_path / f"{kind}{suffix}", events)
            infer_files(client, "sums", mapping(), [str(file)], tmp_path / f"{kind}-out{suffix}")
            assert read(tmp_path / f"{kind}-out{suffix}", "H_output") == expected, kind
