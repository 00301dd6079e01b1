# SPDX-License-Identifier: Apache-2.0
"""Tells other programs that the server is ready: a file with the address of the gRPC port, and systemd's notification socket.

ready     FILE: "node17:8001\n"     READY=1
stopping  FILE is removed           STOPPING=1
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

from hypersonic.server.errors import StartError

_LOG = logging.getLogger(__name__)
#: systemd's variable; sd_notify(3)
NOTIFY_SOCKET = "NOTIFY_SOCKET"


class Announcement:
    """The announcement of one server. ready() does nothing once stopping() was called; any thread may call both."""

    def __init__(self, file: str, *, has_grpc: bool, environment: Mapping[str, str] | None = None) -> None:
        """Create an Announcement.

        Args:
            file: where to write host:port, "" for nowhere.

        Raises:
            StartError: Without a gRPC port, or if the directory cannot be written.
        """
        if file and not has_grpc:
            raise StartError("--grpc-address-file needs a gRPC port; remove it, or --allow-grpc=false")
        self._file = Path(file).absolute() if file else None
        self._socket = (os.environ if environment is None else environment).get(NOTIFY_SOCKET, "")
        self._lock = threading.Lock()
        self._written = ""
        self._stopped = False
        if self._file is not None and not (self._file.parent.is_dir() and os.access(self._file.parent, os.W_OK)):
            raise StartError(
                f"--grpc-address-file is {self._file}, expected a file in a directory that exists and can be written; make "
                f"{self._file.parent} first"
            )

    def ready(self, address: str) -> None:
        """Announce host:port of the gRPC port, or "" if there is none. Raises StartError if the file cannot be written."""
        with self._lock:
            if self._stopped:
                return
            if self._file is not None:
                self._publish(self._file, f"{reachable(address)}\n")
            self._notify("READY=1")

    def stopping(self) -> None:
        """Announce the end: clients that read the file afterwards do not find this server."""
        with self._lock:
            self._stopped = True
            if self._file is not None and self._written:
                with suppress(OSError):
                    if self._file.read_text() == self._written:  # not a later server's address
                        self._file.unlink()
            self._notify("STOPPING=1")

    def _publish(self, file: Path, text: str) -> None:
        """Write the file under another name and rename it, so that nobody reads a part of it."""
        unfinished = file.with_name(f".{file.name}.{socket.gethostname()}.{os.getpid()}")
        try:
            unfinished.write_text(text)
            unfinished.replace(file)
        except OSError as error:
            raise StartError(f"--grpc-address-file: {file} cannot be written: {error.strerror}") from error
        self._written = text

    def _notify(self, state: str) -> None:
        """Send a state to systemd, if it started this process with Type=notify."""
        if not self._socket:
            return
        path = f"\0{self._socket[1:]}" if self._socket.startswith("@") else self._socket
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.sendto(state.encode(), path)
        except OSError as error:
            _LOG.warning("%s cannot be sent to %s=%s: %s", state, NOTIFY_SOCKET, self._socket, error)


def reachable(address: str) -> str:
    """Return host:port for other hosts: a server that listens on all addresses is reached by this host's name."""
    host, _, port = address.rpartition(":")
    return f"{socket.gethostname()}:{port}" if ip_address(host.strip("[]")).is_unspecified else address
