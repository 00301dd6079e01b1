# SPDX-License-Identifier: Apache-2.0
"""Servers that a client finds in files, which batch jobs write and remove."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hypersonic.client import Client
from hypersonic.client.servers import AddressError, Server, environment_servers, resolve
from tests.support.scripted_server import Script, scripted_server
from tests.support.waiting import wait_until

X = np.zeros((8, 4), np.float32)


def addresses(url: str) -> list[str]:
    return [server.address for server in resolve([Server(url, token="t")])]


def test_a_file_has_a_server_in_each_line_and_a_directory_a_file_for_each_server(tmp_path: Path) -> None:
    file = tmp_path / "17"
    file.write_text("# job 17\nnode1:8001\n\nnode2:40001  # U250\nnode1:8001\n")
    assert addresses(f"file://{file}") == ["node1:8001", "node2:40001"]
    (tmp_path / "18").write_text("[::1]:8001\n")
    (tmp_path / ".19.node3.815").write_text("node")  # a file that is being written
    assert addresses(f"file://{tmp_path}") == ["node1:8001", "node2:40001", "[::1]:8001"]
    (named,) = environment_servers({"HYPERSONIC_SERVERS": f"file://{tmp_path}"})
    assert resolve([named])[0].address == "node1:8001"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"servers cannot be read: No such file or directory; is a server up\?"),
        ("# nothing\n", "servers names no server, expected HOST:PORT in each line"),
        ("node1\n", "servers: the server's address is 'node1', expected HOST:PORT"),
        ("file:///etc/passwd\n", "is a name, expected HOST:PORT in each line"),
        ("dns:///a:1\n", "is a name, expected HOST:PORT in each line"),
    ],
)
def test_a_file_without_usable_addresses_is_an_error(content: str | None, message: str, tmp_path: Path) -> None:
    file = tmp_path / "servers"
    if content is not None:
        file.write_text(content)
    with pytest.raises(AddressError, match=message):
        resolve([Server(f"file://{file}")])


def test_a_file_is_named_by_its_absolute_path() -> None:
    with pytest.raises(AddressError, match="expected an absolute path"):
        Server("file://servers")


def test_a_client_follows_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job is started after the client, a second one joins, the first one leaves and comes back at its address."""
    monkeypatch.setattr("hypersonic.client.pool.servers._FILE_S", 0.05)
    with scripted_server(Script()) as first, scripted_server(Script()) as second, Client(f"file://{tmp_path}") as client:
        model = client.model("double")
        with pytest.raises(AddressError, match="names no server"):
            model.infer(X)
        (tmp_path / "1").write_text(first)
        assert model.result(X).server == first
        (tmp_path / "2").write_text(second)
        wait_until(lambda: model.result(X).server == second)
        (tmp_path / "1").unlink()
        wait_until(lambda: {model.result(X).server for _ in range(20)} == {second})
        (tmp_path / "1").write_text(first)
        (tmp_path / "2").unlink()
        wait_until(lambda: {model.result(X).server for _ in range(20)} == {first})
