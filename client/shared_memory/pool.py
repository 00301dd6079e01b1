# SPDX-License-Identifier: Apache-2.0
"""The regions of a client. They are reused, so that a server opens each of them once."""

from __future__ import annotations

import itertools
import logging
import threading

from hypersonic.client.settings import Limits
from hypersonic.client.shared_memory.names import make_name, remove_abandoned
from hypersonic.client.shared_memory.region import Region

_LOG = logging.getLogger(__name__)
#: the smallest region; larger ones are powers of two
_LEAST_BYTES = 1 << 16
#: numbers of the regions of all clients of this process
_NUMBERS = itertools.count()


class RegionPool:
    """The regions of a client: at most Limits.in_flight, of twice Limits.bytes_in_flight in all. Any thread may use it."""

    def __init__(self, limits: Limits) -> None:
        self._most, self._most_bytes = limits.in_flight, 2 * limits.bytes_in_flight
        self._lock = threading.Lock()
        self._free: list[Region] = []
        self._all: set[Region] = set()
        self._closed = False
        self._swept = False

    def take(self, size_bytes: int) -> tuple[Region | None, list[Region]]:
        """Return a region of `size_bytes` or more, and the regions that were discarded for it.

        The region is None if the limits are reached, if /dev/shm has no room, and after close().
        """
        rounded = max(_LEAST_BYTES, 1 << (size_bytes - 1).bit_length())
        discarded: list[Region] = []
        with self._lock:
            for place in reversed(range(len(self._free))):  # the one used last, which is in the cache
                if self._free[place].size_bytes >= size_bytes:
                    return self._free.pop(place), discarded
            while self._free and not self._fits(rounded):
                discarded.append(self._discard(self._free.pop(0)))
            if not self._fits(rounded):
                return None, discarded
            try:
                if not self._swept:
                    self._swept = True
                    remove_abandoned()
                region = Region(make_name(next(_NUMBERS)), rounded)
            except OSError as error:
                self._most = 0
                _LOG.info("no more shared memory is used, requests go as messages: %s", error)
                return None, discarded
            self._all.add(region)
            return region, discarded

    def give(self, region: Region) -> None:
        """Take back a region that no server uses."""
        with self._lock:
            if region in self._all:
                self._free.append(region)

    def discard(self, region: Region) -> None:
        """Remove a region that a server may still write to."""
        with self._lock:
            self._discard(region)

    def has(self, region: Region) -> bool:
        """Return whether the region is in use or can be used again."""
        with self._lock:
            return region in self._all

    def close(self) -> None:
        """Remove all regions."""
        with self._lock:
            self._closed = True
            self._free.clear()
            for region in tuple(self._all):
                self._discard(region)

    def _fits(self, size_bytes: int) -> bool:
        held = sum(region.size_bytes for region in self._all)
        return not self._closed and len(self._all) < self._most and held + size_bytes <= self._most_bytes

    def _discard(self, region: Region) -> Region:
        self._all.discard(region)
        region.unlink()
        return region
