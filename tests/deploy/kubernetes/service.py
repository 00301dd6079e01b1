# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for what a cluster does around a container: variables in its arguments, its probes, a Service, the name of one."""

from __future__ import annotations

import http.client
import re
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from hypersonic.hls.cache import cache_directory
from tests.deploy.kubernetes.programs import Manifest
from tests.support.server_program import Program


def environment(server: Manifest, repository: Path, home: Path) -> dict[str, str]:
    """The container's variables, with a repository and a home of the test's own. The image has a cache of compiled parts."""
    given = {each["name"]: str(each.get("value", "pod-1")) for each in server["env"]}
    return {**given, "MODEL_REPOSITORY": str(repository), "HOME": str(home), "HYPERSONIC_CACHE": str(cache_directory())}


def arguments(server: Manifest, variables: Mapping[str, str]) -> list[str]:
    """The container's arguments, as Kubernetes expands $(NAME). The log stays text, for the helper that reads its ports."""
    expanded = [re.sub(r"\$\((\w+)\)", lambda match: variables[match[1]], arg) for arg in server["args"]]
    return [arg for arg in expanded if not arg.startswith("--log-format")]


def http_address(running: Program) -> str:
    """Where HTTP listens, also before the models are loaded."""
    running.wait_for(lambda: re.search(r"HTTPService listens at (\S+);", running.log))
    match = re.search(r"HTTPService listens at (\S+);", running.log)
    assert match is not None
    return match[1]


def probes(server: Manifest, address: str) -> dict[str, bool]:
    """Which of a container's probes succeed: a kubelet takes 200 to 399 for success."""
    results = {}
    for name in ("startup", "liveness", "readiness"):
        asked = server[f"{name}Probe"]
        connection = http.client.HTTPConnection(address, timeout=60)
        connection.request("GET", asked["httpGet"]["path"])
        results[name] = 200 <= connection.getresponse().status < 400
        connection.close()
    return results


class Service:
    """A Service's address: each new connection goes to the endpoint of that moment, and stays there."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._accepting.join()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                host, _, port = self.endpoint.rpartition(":")
                server = socket.create_connection((host, int(port)))
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=_copy, args=pair, daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@contextmanager
def service(endpoint: str) -> Iterator[Service]:
    made = Service(endpoint)
    try:
        yield made
    finally:
        made.close()


class HeadlessService:
    """A name server that knows one name, with the addresses of the pods of that moment."""

    def __init__(self, name: str, pods: list[str]) -> None:
        self.pods = pods
        labels = name.encode().split(b".")
        self._name = b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._socket.getsockname()
        self._answering = threading.Thread(target=self._answer)
        self._answering.start()

    def close(self) -> None:
        """End, by an empty packet to itself."""
        self._socket.sendto(b"", self.address)
        self._answering.join()
        self._socket.close()

    def _answer(self) -> None:
        while True:
            query, client = self._socket.recvfrom(512)
            if not query:
                return
            question = query[12 : 12 + len(self._name) + 4]
            known = question[: len(self._name)].lower() == self._name
            found = self.pods if known and question.endswith(b"\0\1\0\1") else []
            # a reply (RFC 1035): recursion available, and NXDOMAIN for other names; addresses refer to the name of the question
            head = query[:2] + (b"\x81\x80" if known else b"\x81\x83") + struct.pack(">HHHH", 1, len(found), 0, 0)
            records = b"".join(b"\xc0\x0c\0\1\0\1" + struct.pack(">IH", 5, 4) + socket.inet_aton(pod) for pod in found)
            self._socket.sendto(head + (question if known else query[12:]) + records, client)


@contextmanager
def headless_service(name: str, pods: list[str]) -> Iterator[HeadlessService]:
    made = HeadlessService(name, pods)
    try:
        yield made
    finally:
        made.close()
