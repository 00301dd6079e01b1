# SPDX-License-Identifier: Apache-2.0
"""From a generated ROOT file to energies, with the real server: every energy is csim's integer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import uproot

from hypersonic import cli
from hypersonic.building.model import build
from hypersonic.client import Client
from hypersonic.client.columns import open_source, read_mapping, read_metadata
from hypersonic.client.columns.rows import make_rows
from hypersonic.events.golden import check_against_csim
from hypersonic.server_process import RunningServer, start_server
from tests.support.optional import needs_build

pytestmark = [
    needs_build,
    pytest.mark.slow,
    pytest.mark.whole("client", "firmware", "hls", "host", "hypersonic", "requirements.lock", "server", "sim"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    repository = tmp_path_factory.mktemp("models")
    build("facile", target="sw_emu", repository=repository)
    with start_server(repository) as running:
        yield running


def test_a_generated_file_gets_the_energies_of_csim(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["events", "facile", "--output", "events.root", "--events", "8", "--seed", "2", "--quiet"]) == 0
    argv = ["infer", "facile", "--input", "events.root", "--url", server.grpc, "--keep", "event,DigiHB_ieta", "--quiet"]
    assert cli.main([*argv, "--chunk-mb", "1"]) == 0
    assert "8 events, " in capsys.readouterr().out
    with uproot.open("events.facile.root") as file, uproot.open("events.root") as given:
        made, asked = file["Events"].arrays(), given["Events"].arrays()
    assert made["event"].tolist() == asked["event"].tolist() == list(range(1, 9))
    assert made["DigiHB_ieta"].tolist() == asked["DigiHB_ieta"].tolist()
    counts = np.array([len(event) for event in asked["DigiHB_fc0"]])
    assert [len(event) for event in made["DigiHB_energy"]] == counts.tolist()
    assert 0 in counts
    assert len(set(counts)) > 3
    energies = np.concatenate([np.asarray(event) for event in made["DigiHB_energy"]]).astype(np.float32)
    mapping = read_mapping("facile")
    (chunk,) = open_source("events.root").chunks(mapping.columns, 1 << 30)
    rows = make_rows(mapping, chunk, np.dtype(np.float32), "events.root").array
    with Client(server.grpc) as client:
        spec = client.model("facile").spec
    assert check_against_csim("facile", spec, (rows,), (energies.reshape(-1, 1),)) == counts.sum()
    metadata = read_metadata(Path("events.facile.root"))
    assert metadata is not None
    assert (metadata["model"], metadata["version"], metadata["servers"]) == ("facile", "1", [server.grpc])
