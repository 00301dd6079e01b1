# SPDX-License-Identifier: Apache-2.0
"""The server announces its readiness: to systemd, and in a file for clients on other hosts."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypersonic.server.announce import Announcement, reachable
from hypersonic.server.errors import StartError
from tests.server.conftest import Serve


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    """The value of NOTIFY_SOCKET, and the socket that reads what is sent to it."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@{tmp_path}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(name.replace("@", "\0", 1) if name.startswith("@") else name)
        listener.settimeout(10)
        yield name, listener


def test_systemd_is_told_when_the_server_is_ready_and_when_it_stops(
    manager: tuple[str, socket.socket], serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, listener = manager
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    file = tmp_path / "address"
    with serve(grpc_address_file=str(file)) as running:
        assert listener.recv(100) == b"READY=1"
        assert file.read_text() == f"{running.grpc}\n"
    assert listener.recv(100) == b"STOPPING=1"
    assert not file.exists()


def test_nothing_is_ready_after_the_stop(tmp_path: Path) -> None:
    """SIGTERM may arrive while the models are loaded."""
    announcement = Announcement(str(tmp_path / "address"), has_grpc=True, environment={})
    announcement.stopping()
    announcement.ready("127.0.0.1:8001")
    assert not list(tmp_path.iterdir())


def test_the_address_of_a_later_server_is_kept(tmp_path: Path) -> None:
    first, second = (Announcement(str(tmp_path / "address"), has_grpc=True, environment={}) for _ in range(2))
    first.ready("127.0.0.1:8001")
    second.ready("127.0.0.1:8002")
    first.stopping()
    assert (tmp_path / "address").read_text() == "127.0.0.1:8002\n"
    second.stopping()
    assert not list(tmp_path.iterdir())


def test_a_server_on_all_addresses_is_published_by_the_hosts_name() -> None:
    host = socket.gethostname()
    assert [reachable(address) for address in ("0.0.0.0:8001", "[::]:8001", "10.0.0.7:8001", "[fe80::1]:8001")] == [
        f"{host}:8001", f"{host}:8001", "10.0.0.7:8001", "[fe80::1]:8001",
    ]  # fmt: skip


def test_a_file_that_cannot_be_written_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"in a directory that exists and can be written; make .*/nowhere first"):
        Announcement(str(tmp_path / "nowhere" / "address"), has_grpc=True, environment={})
    with pytest.raises(StartError, match="--grpc-address-file needs a gRPC port"):
        Announcement(str(tmp_path / "address"), has_grpc=False, environment={})
    (tmp_path / "address").mkdir()
    with pytest.raises(StartError, match="cannot be written: Is a directory"):
        Announcement(str(tmp_path / "address"), has_grpc=True, environment={}).ready("127.0.0.1:8001")


def test_a_manager_that_is_gone_is_no_reason_to_fail(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Announcement("", has_grpc=True, environment={"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready("127.0.0.1:8001")
    assert "READY=1 cannot be sent" in caplog.text
