# SPDX-License-Identifier: Apache-2.0
"""Sharing: sends the tensors of a client's requests through shared memory where a server allows it."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from numpy.typing import NDArray

from hypersonic.client.attempts.request import Sending
from hypersonic.client.messages.request import HeadKey
from hypersonic.client.messages.response import Answer, read_answer
from hypersonic.client.pool.member import Member
from hypersonic.client.servers import Server, is_local
from hypersonic.client.settings import Settings
from hypersonic.client.shared_memory.message import Layout, lay_out, make_message, mark_outputs, read_shared
from hypersonic.client.shared_memory.place import ServerRegions
from hypersonic.client.shared_memory.pool import RegionPool
from hypersonic.client.shared_memory.region import Region
from hypersonic.client.shared_memory.transport import RegionMessage, SharingTransport
from hypersonic.client.specs import ModelSpec
from hypersonic.client.transport.call import Connect, Transport

#: a request with fewer bytes of tensors goes as a message, which is as fast
SMALLEST_BYTES = 16 << 10


class Sharing:
    """The regions of one client in one process, and the servers that know them. Any thread may use it.

    A region is registered with a server without waiting: the request that would have used it first goes as a message.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._regions = RegionPool(settings.limits)
        self._places: dict[Member, ServerRegions | None] = {}
        self._lock = threading.Lock()
        self._end = weakref.finalize(self, _end, os.getpid(), self._regions, self._places)

    @staticmethod
    def connect(inner: Connect) -> Connect:
        """Return a maker of transports that send a request as a message if the server has forgotten its region."""

        def connected(server: Server, settings: Settings) -> Transport:
            return SharingTransport(inner(server, settings))

        return connected

    def sendings(
        self,
        spec: ModelSpec,
        key: HeadKey,
        buffers: Sequence[bytes | NDArray[Any]],
        plain: Callable[[str], bytes],
        check: Callable[[Answer, str], Answer],
    ) -> Callable[[Member, str], Sending]:
        """Return the function that makes a request's Sending for a server and a version of the model.

        Outputs are copied out of the region before it is released, so that later requests do not change them.

        Args:
            buffers: of the inputs, in the order of `key`.
            plain: returns the request for a version as a message.
            check: of the answer to a request for a version; raises AnswerError.
        """
        layout = lay_out(spec, key, buffers)

        def sending(member: Member, version: str) -> Sending:
            taken = self._take(member, layout)
            if taken is None:
                return Sending(plain(version), lambda message: check(read_answer(message), version))
            region, place = taken
            try:
                marks = mark_outputs(layout, region)
                message = make_message(spec, replace(key, version=version), buffers, layout, region)
            except BaseException:  # such as a parameter that protobuf does not take
                self._regions.give(region)
                raise
            answered = False

            def read(answer: bytes) -> Answer:
                nonlocal answered
                answered = True  # the server has written all that it will write
                return check(read_shared(answer, layout, region, marks), version)

            again = partial(plain, version)
            return Sending(RegionMessage.of(message, again, place.lost), read, lambda: self.give(region, answered=answered))

        return sending

    def give(self, region: Region, *, answered: bool) -> None:
        """Take back the region of a request that is over.

        Args:
            answered: False if the server may still write its outputs there: another request must never have this memory.
        """
        if answered:
            self._regions.give(region)
        else:
            self._regions.discard(region)
            self._forget([region])

    def close(self) -> None:
        """Unregister and remove all regions."""
        self._end()

    def _take(self, member: Member, layout: Layout) -> tuple[Region, ServerRegions] | None:
        """Return a region that the server knows; None if the request is to go as a message."""
        if layout.size_bytes < SMALLEST_BYTES:
            return None
        place = self._place(member)
        if place is None or place.refused:
            return None
        region, discarded = self._regions.take(layout.size_bytes)
        self._forget(discarded)
        if region is None:
            return None
        if not place.knows(region):
            self._regions.give(region)
            return None
        return region, place

    def _place(self, member: Member) -> ServerRegions | None:
        """Return the server's place; None if it is on another host."""
        with self._lock:
            if member not in self._places:
                local = is_local(member.name)
                self._places[member] = (
                    ServerRegions(member, self._settings.timeout.connect_s, self._regions.has) if local else None
                )
            return self._places[member]

    def _forget(self, regions: Sequence[Region]) -> None:
        with self._lock:
            places = [place for place in self._places.values() if place is not None]
        for region in regions:
            for place in places:
                place.forget(region)


def _end(pid: int, regions: RegionPool, places: dict[Member, ServerRegions | None]) -> None:
    """Unregister and remove the regions, at close() or at the end of their process; a fork does not touch them."""
    if pid == os.getpid():
        regions.close()
        for place in tuple(places.values()):
            if place is not None:
                place.close()
