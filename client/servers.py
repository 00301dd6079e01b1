# SPDX-License-Identifier: Apache-2.0
"""The addresses of servers with their credentials. Addresses may come from environment variables, DNS names and files."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path

from hypersonic.client.errors import ClientError

#: CMSSW's variables for the load balancer of a site; both have to be set
BALANCER_HOST, BALANCER_PORT = "SONIC_LOCAL_BALANCER_HOST", "SONIC_LOCAL_BALANCER_PORT"
#: host:port, separated by commas
SERVERS = "HYPERSONIC_SERVERS"


class AddressError(ClientError, ValueError):
    """The address of a server is malformed, or its name cannot be resolved."""


@dataclass(frozen=True)
class Tls:
    """Paths of PEM files.

    Attributes:
        root: certificates of the servers' authorities; "": gRPC's own.
        certificate, key: the client's.
        name: the name in the server's certificate, if it differs from the address.
    """

    root: str = ""
    certificate: str = ""
    key: str = ""
    name: str = ""


@dataclass(frozen=True)
class Server:
    """A server.

    Attributes:
        address: host:port of its gRPC port; "dns:///host:port" means one server for each address of the name; "file:///path"
            one for each line of that file, or of all files in that directory, which servers write with --grpc-address-file.
        token: a bearer token, or a function that returns one and is called for each request.
        headers: sent with each request.
        proxy: an HTTP CONNECT proxy, such as "http://proxy:3128"; "": none; None: the one that the environment names.
    """

    address: str
    tls: Tls | None = None
    token: str | Callable[[], str] = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    proxy: str | None = None

    def __post_init__(self) -> None:
        if self.address.startswith(_FILE):
            if not Path(self.address.removeprefix(_FILE)).is_absolute():
                raise AddressError(
                    f"the server's address is {self.address!r}, expected an absolute path, such as file:///a/servers"
                )
            return
        host, _, port = self.address.removeprefix(_DNS).rpartition(":")
        if not host or _NOT_IN_HOST & set(host) or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            hint = "; several servers are a list of addresses" if "," in host else ""
            raise AddressError(
                f"the server's address is {self.address!r}, expected HOST:PORT of its gRPC port, such as localhost:8001{hint}"
            )


_DNS, _FILE = "dns:///", "file://"
#: the most bytes of a file of addresses that are read
_MOST_BYTES = 1 << 20
#: characters of URLs and lists
_NOT_IN_HOST = set("/, \t\n")


def as_servers(servers: str | Server | Iterable[str | Server]) -> tuple[Server, ...]:
    """Return the servers that a user names, each once. Raises AddressError for none, a malformed one, or one named twice."""
    several = (servers,) if isinstance(servers, str | Server) or not isinstance(servers, Iterable) else tuple(servers)
    for server in several:
        if not isinstance(server, str | Server):
            raise TypeError(f"a server is {server!r}, expected an address, such as 'localhost:8001', or a Server")
    made = tuple(Server(server) if isinstance(server, str) else server for server in several)
    if not made:
        raise AddressError("no server was given, expected one or more, such as 'localhost:8001'")
    addresses = [server.address for server in made]
    if twice := {address for address in addresses if addresses.count(address) > 1}:
        raise AddressError(f"{', '.join(sorted(twice))} is given more than once")
    return made


def environment_servers(environment: Mapping[str, str] | None = None) -> tuple[Server, ...]:
    """Return the servers that the environment names: a site's balancer first, then HYPERSONIC_SERVERS.

    Raises AddressError if it names none, or only one half of the balancer's address.
    """
    values = os.environ if environment is None else environment
    host, port = values.get(BALANCER_HOST, ""), values.get(BALANCER_PORT, "")
    if bool(host) != bool(port):
        got = f"{BALANCER_HOST} is {host!r} and {BALANCER_PORT} is {port!r}"
        raise AddressError(f"{got}, expected both or neither")
    named = [name.strip() for name in values.get(SERVERS, "").split(",") if name.strip()]
    found = ([f"{host}:{port}"] if host else []) + named
    if not found:
        raise AddressError(
            f"the environment names no server: set {BALANCER_HOST} and {BALANCER_PORT}, or {SERVERS}=HOST:PORT,.."
        )
    return as_servers(dict.fromkeys(found))


def resolve(servers: Sequence[Server]) -> tuple[Server, ...]:
    """Return the servers with each dns:///host:port and file:///path replaced by one server for each address.

    Queries DNS. With TLS, the host stays the name that a certificate must have. Raises AddressError if a name is not known, and
    for a file that cannot be read, has a malformed line or names no server.
    """
    return tuple(single for server in servers for single in _addresses(server))


def is_name(server: Server) -> bool:
    """Return whether the server is a name that may have several addresses."""
    return server.address.startswith((_DNS, _FILE))


def is_file(server: Server) -> bool:
    """Return whether the server is a file of addresses, or a directory of such files."""
    return server.address.startswith(_FILE)


def is_local(address: str) -> bool:
    """Return whether the address is one of this host's own interfaces, so that client and server may share memory.

    A name other than localhost is not looked up, and counts as another host's.

    Args:
        address: host:port.
    """
    host = address.rpartition(":")[0].strip("[]")
    return host == "localhost" or _is_own(host)


def _is_own(host: str) -> bool:
    """Return whether a socket can be bound to the IP address, without sending anything."""
    try:
        family = socket.AF_INET6 if ip_address(host).version == 6 else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))
    except (OSError, ValueError):
        return False
    return True


def _addresses(server: Server) -> tuple[Server, ...]:
    if is_file(server):
        return tuple(replace(server, address=address) for address in dict.fromkeys(_listed(server)))
    if not is_name(server):
        return (server,)
    host, _, port = server.address.removeprefix(_DNS).rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        raise AddressError(f"{server.address}: the name {host!r} has no address: {error}") from error
    tls = replace(server.tls, name=server.tls.name or host) if server.tls else None
    addresses = dict.fromkeys(
        f"[{entry[4][0]}]:{port}" if entry[0] == socket.AF_INET6 else f"{entry[4][0]}:{port}" for entry in found
    )
    return tuple(replace(server, address=address, tls=tls) for address in addresses)


def _listed(server: Server) -> list[str]:
    """Return the addresses in a file, or in the files of a directory; names that begin with a dot are unfinished files."""
    path = Path(server.address.removeprefix(_FILE))
    try:
        files = sorted(file for file in path.iterdir() if not file.name.startswith(".")) if path.is_dir() else [path]
        found = [address for file in files for address in _lines(file, missing_is_empty=path.is_dir())]
    except OSError as error:
        what = f"{error.filename or path} cannot be read: {error.strerror}"
        raise AddressError(f"{server.address}: {what}; is a server up?") from error
    if not found:
        raise AddressError(f"{server.address} names no server, expected HOST:PORT in each line; is a server up?")
    return found


def _lines(file: Path, *, missing_is_empty: bool) -> list[str]:
    """Return the addresses in a file; # begins a comment.

    Args:
        missing_is_empty: a server may remove its file at any time.
    """
    try:
        with file.open("rb") as opened:
            content = opened.read(_MOST_BYTES).decode(errors="replace")
    except FileNotFoundError:
        if missing_is_empty:
            return []
        raise
    found = [stripped for line in content.splitlines() if (stripped := line.partition("#")[0].strip())]
    for address in found:
        try:
            named = Server(address)
        except AddressError as error:
            raise AddressError(f"{file}: {error}") from error
        if is_name(named):
            raise AddressError(f"{file}: {address} is a name, expected HOST:PORT in each line")
    return found
