# SPDX-License-Identifier: Apache-2.0
"""A server on this host: which regions are registered with it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from google.protobuf.message import DecodeError, Message
from tritonclient.grpc import service_pb2

from hypersonic.client.codes import Code
from hypersonic.client.errors import RETRYABLE, CallError
from hypersonic.client.pool.member import Member
from hypersonic.client.shared_memory.names import is_abandoned, is_listed
from hypersonic.client.shared_memory.region import Region

_LOG = logging.getLogger(__name__)
#: seconds until a server that was out of reach, or out of room, is asked again
_PAUSE_S = 10.0
#: seconds that the last calls to a server may take
_CLOSE_S = 5.0
#: the maximum number of names in a server's list that are checked
_MOST_LISTED = 10_000


class ServerRegions:
    """A server's regions. Nothing here waits: registering is a call whose answer changes the state. Any thread may use it."""

    def __init__(self, member: Member, timeout_s: float, is_used: Callable[[Region], bool]) -> None:
        """Create a Place.

        Args:
            timeout_s: of a call.
            is_used: tells whether a region was not discarded.
        """
        self._member, self._timeout_s, self._is_used = member, timeout_s, is_used
        self._lock = threading.Condition()
        self._calls = 0
        self._registered: set[Region] = set()
        self._pending: set[Region] = set()
        self._refused = self._cleaned = False
        self._ask_after = 0.0

    def knows(self, region: Region) -> bool:
        """Return whether the region is registered. If it is not, ask the server to register it."""
        with self._lock:
            if region in self._registered:
                return True
            if self._refused or region in self._pending or time.monotonic() < self._ask_after:
                return False
            self._pending.add(region)
        message = service_pb2.SystemSharedMemoryRegisterRequest(
            name=region.name, key=region.key, offset=0, byte_size=region.size_bytes
        )
        self._call("SystemSharedMemoryRegister", message, lambda outcome: self._answered(region, outcome))
        return False

    @property
    def refused(self) -> bool:
        """True if the server takes no regions."""
        return self._refused

    def lost(self) -> None:
        """Note that the server no longer knows the regions, as after a restart. The next requests register them again."""
        with self._lock:
            self._registered.clear()

    def forget(self, region: Region) -> None:
        """Unregister a region that was discarded."""
        with self._lock:
            known = region in self._registered
            self._registered.discard(region)
        if known:
            self._unregister(region.name)

    def close(self) -> None:
        """Unregister all regions and wait until no call is left, for five seconds at most.

        Closing the connection would end its calls, and a region that is just being registered or unregistered would remain with
        the server.
        """
        deadline = time.monotonic() + _CLOSE_S
        with self._lock:
            self._refused = True
            names = sorted(region.name for region in self._registered)
            self._registered.clear()
        try:
            for name in names:
                message = service_pb2.SystemSharedMemoryUnregisterRequest(name=name).SerializeToString()
                left_s = max(0.001, deadline - time.monotonic())
                self._member.transport.unary("SystemSharedMemoryUnregister", message, left_s, self._member.headers())
        except Exception as error:  # noqa: BLE001 - the server is gone, or a user's function for tokens fails: the rest is closed
            _LOG.debug("%s: regions of shared memory stay registered: %s", self._member.name, error)
        with self._lock:
            self._lock.wait_for(lambda: not self._calls, max(0.0, deadline - time.monotonic()))

    def _answered(self, region: Region, outcome: bytes | CallError) -> None:
        """Called with the answer to SystemSharedMemoryRegister."""
        with self._lock:
            self._pending.discard(region)
            if isinstance(outcome, CallError):
                self._refuse(outcome)
                used = outcome.code != Code.ALREADY_EXISTS
                clean = False
            else:
                used = not self._refused and self._is_used(region)
                clean, self._cleaned = used and not self._cleaned, self._cleaned or used
                if used:
                    self._registered.add(region)
        if not used:
            self._unregister(region.name)
        if clean:
            self._call("SystemSharedMemoryStatus", service_pb2.SystemSharedMemoryStatusRequest(), self._clean)

    def _refuse(self, error: CallError) -> None:
        """Called with the lock held. ALREADY_EXISTS: the answer to an earlier call was lost; the name is free again soon."""
        if error.code in RETRYABLE or error.code == Code.ALREADY_EXISTS:
            self._ask_after = time.monotonic() + _PAUSE_S
        elif not self._refused:
            self._refused = True
            _LOG.info("%s takes no shared memory, requests go as messages: %s", self._member.name, error.text)

    def _clean(self, outcome: bytes | CallError) -> None:
        """Unregister the regions of processes that have ended.

        The server shares this host's memory, because it has opened a region of this process. So a region whose process and
        file are both gone here is in no use.

        Args:
            outcome: the server's list, whose names are not trusted.
        """
        if isinstance(outcome, CallError):
            return
        try:
            regions = service_pb2.SystemSharedMemoryStatusResponse.FromString(outcome).regions
        except DecodeError:
            return
        for name in sorted(regions)[:_MOST_LISTED]:
            if is_abandoned(name) and not is_listed(name):
                self._unregister(name)

    def _unregister(self, name: str) -> None:
        message = service_pb2.SystemSharedMemoryUnregisterRequest(name=name)
        self._call("SystemSharedMemoryUnregister", message, lambda _outcome: None)

    def _call(self, method: str, message: Message, done: Callable[[bytes | CallError], None]) -> None:
        """Start a call.

        Args:
            done: called with the answer, maybe by another thread; close() waits for its end.
        """
        with self._lock:
            self._calls += 1
        try:
            headers = self._member.headers()
            self._member.transport.start(
                method, message.SerializeToString(), self._timeout_s, headers, partial(self._ended, done)
            )
        except CallError as error:
            self._ended(done, error)
        except Exception as error:  # noqa: BLE001 - of the user's function for tokens: the request itself will raise it
            self._ended(done, CallError(Code.UNAUTHENTICATED, str(error)))

    def _ended(self, done: Callable[[bytes | CallError], None], outcome: bytes | CallError) -> None:
        try:
            done(outcome)
        finally:
            with self._lock:
                self._calls -= 1
                self._lock.notify_all()
