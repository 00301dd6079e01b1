# SPDX-License-Identifier: Apache-2.0
"""Peers: which clients count as one address when memory, places and connections are shared.

ipv4:10.1.2.3:50124, 10.1.2.3:50124, ::ffff:10.1.2.3:50124    10.1.2.3
ipv6:[2001:db8:1:2:3::4]:50124                                2001:db8:1:2::/64   (one customer has at least a /64)
ipv6:[fd00::4]:50124, [fe80::4%eth0]:50124                    the address itself  (a site's own network)
unix:/run/triton.sock                                         unix
an address in --trusted-proxies                               each connection separately, because many clients are behind it
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import unquote

Network = IPv4Network | IPv6Network
_CUSTOMER_BITS = 64
#: the most connections whose address is remembered
_REMEMBERED = 1 << 16


class Peers:
    """Maps connections to addresses. Any thread may use it."""

    def __init__(self, trusted_proxies: Iterable[str] = ()) -> None:
        """Create a Peers.

        Args:
            trusted_proxies: addresses and networks in CIDR notation.

        Raises:
            ValueError: For a text that is neither.
        """
        self._trusted = tuple(ip_network(text, strict=False) for text in trusted_proxies)
        #: connection -> the address as which it counts
        self.address_of = lru_cache(_REMEMBERED)(self._address_of)

    def _address_of(self, client: str) -> str:
        """Any other text counts as itself.

        Args:
            client: a connection, as gRPC or this server's HTTP writes it.
        """
        if client.startswith("unix"):
            return "unix"
        address = ip_of(client)
        if address is None or any(address in network for network in self._trusted):
            return client
        if isinstance(address, IPv4Address) or not address.is_global:
            return str(address)
        return str(IPv6Network((int(address) >> _CUSTOMER_BITS << _CUSTOMER_BITS, _CUSTOMER_BITS)))


def ip_of(client: str) -> IPv4Address | IPv6Address | None:
    """Return the address in `ipv4:A:port`, `ipv6:[A]:port`, `ipv6:%5BA%5D:port` or `A:port`; None if there is none.

    An IPv4-mapped IPv6 address gives the IPv4 address.
    """
    text = unquote(client).removeprefix("ipv4:").removeprefix("ipv6:").rpartition(":")[0].strip("[]")
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
