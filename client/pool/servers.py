# SPDX-License-Identifier: Apache-2.0
"""The servers of a client, and the checks of their state.

::

    UNKNOWN --ServerReady, RepositoryIndex--> UP --3 failures in a row--> OUT --1 s, 2 s, .. 30 s: ServerReady--> UP
                                              UP <--RepositoryIndex, every 30 s--> REFUSING

Nothing here waits: checks are calls whose answers change the state. A request waits in `ready_for` only until the first check
of a server that has its model has ended.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence, Set

from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2

from hypersonic.client.codes import Code
from hypersonic.client.errors import CallError
from hypersonic.client.pool.choice import choose
from hypersonic.client.pool.member import Member, State, Wanted
from hypersonic.client.pool.timer import Timer
from hypersonic.client.servers import AddressError, Server, is_file, is_name, resolve
from hypersonic.client.settings import Settings
from hypersonic.client.transport.call import Connect

_LOG = logging.getLogger(__name__)
_INDEX = bytes(service_pb2.RepositoryIndexRequest().SerializeToString())
#: polling interval in seconds for files of addresses
_FILE_S = 5.0
#: codes of a server that does not list its models, so that it may have any
_SILENT = {Code.UNIMPLEMENTED, Code.UNAUTHENTICATED, Code.PERMISSION_DENIED}


class Pool:
    """The servers. Any thread may use it."""

    def __init__(self, servers: Sequence[Server], settings: Settings, connect: Connect, timer: Timer) -> None:
        self._servers, self._settings, self._connect, self._timer = servers, settings, connect, timer
        self._changed = threading.Condition()
        self._members: dict[str, Member] = {}
        self._rng = random.Random()
        #: called when a server takes requests again that it has refused, because it may have been restarted
        self.on_return: Callable[[Member], None] = lambda _member: None
        self._opened = self._closed = False

    @property
    def members(self) -> tuple[Member, ...]:
        """All servers that are or were part of the pool."""
        with self._changed:
            return tuple(self._members.values())

    def ready_for(self, model: Wanted, timeout_s: float) -> None:
        """Wait until a server that has the model is up, every server was checked, or the time is over."""
        self._open()
        with self._changed:
            self._changed.wait_for(lambda: self._settled(model), timeout_s)

    def is_up(self, name: str, timeout_s: float) -> bool:
        """Return whether a server is up and has the model; "" is any model. Waits for the first checks."""
        self.ready_for((name, ""), timeout_s)
        with self._changed:
            return any(
                member.state is State.UP and (not name or member.may_have((name, ""))) and not member.leaving
                for member in self._members.values()
            )

    def check_all(self) -> None:
        """Ask all servers whether they are ready, and for their models. Returns without waiting."""
        for member in self.members:
            if not member.leaving:
                self.check(member)

    def listed(self, timeout_s: float) -> dict[str, frozenset[str]]:
        """Return the models that are ready at each server that is up and lists them, by its address. Asks the servers."""
        self.ready_for(("", ""), timeout_s)
        found = {}
        for member in self.members:
            if member.state is State.UP and not member.leaving:
                try:
                    outcome: bytes | CallError = member.transport.unary(
                        "RepositoryIndex", _INDEX, self._settings.timeout.connect_s, member.headers()
                    )
                except CallError as error:
                    outcome = error
                models = _models(outcome)
                if isinstance(models, frozenset):
                    found[member.name] = models
        return found

    def pick(self, model: Wanted, avoid: Set[Member] = frozenset()) -> Member | None:
        """Return the server for the next attempt; None if no server takes work for the model now."""
        with self._changed:
            return choose(self._members.values(), model, avoid, self._rng)

    def why_not(self, model: Wanted) -> str:
        """Return the reason why each server does not take work for the model, as one line."""
        with self._changed:
            return "; ".join(f"{member.name} {_reason(member, model)}" for member in self._members.values())

    def has_it(self, model: Wanted, besides: Set[Member] = frozenset()) -> bool:
        """Return whether any server, but those in `besides`, may have the model, even if it does not take work now."""
        with self._changed:
            others = [member for member in self._members.values() if member not in besides and not member.leaving]
            return any(member.may_have(model) for member in others)

    def lists_it(self, model: Wanted) -> bool:
        """Return whether a server listed the model when it was last checked, although it may have answered NOT_FOUND since."""
        name, version = model
        with self._changed:
            return not version and any(name in (each.models or ()) for each in self._members.values() if not each.leaving)

    def begin(self, member: Member, size: int, *, retry: bool, hedge: bool = False) -> None:
        """Count an attempt of `size` bytes that is about to be sent."""
        with self._changed:
            member.in_flight += 1
            member.bytes_in_flight += size
            member.counters.sent += 1
            member.counters.bytes += size
            member.counters.retried += retry
            member.counters.hedged += hedge

    def succeed(self, member: Member, size: int, latency_ns: int, name: str) -> None:
        """Count an answer of the model `name`, and reset the failures in a row."""
        with self._changed:
            self._end(member, size)
            if name in member.pauses and name not in member.refuted:
                del member.pauses[name]
            member.counters.latencies.add(latency_ns)
            member.failures = 0
            member.pause_s = 0.0
            if member.state is State.OUT:
                member.state = State.UP

    def fail(self, member: Member, size: int, error: CallError, model: Wanted, *, blame: bool) -> None:
        """Count a failed attempt.

        Args:
            blame: it is the server's fault; after several of these in a row the server is left out.
        """
        with self._changed:
            self._end(member, size)
            member.counters.failed += 1
            member.why = error.text
            if error.code == Code.NOT_FOUND:
                self._lacks(member, model)
            if not blame:
                return
            member.failures += 1
            if member.failures >= self._settings.health.failures and member.state is not State.OUT:
                self._leave_out(member)

    def lacks(self, member: Member, model: Wanted) -> None:
        """Do not ask a server again for a model that it does not have, until its next check."""
        with self._changed:
            self._lacks(member, model)

    def refute(self, member: Member, name: str, why: str) -> float:
        """Leave a server out for one model, until admit(). Returns for how many seconds; 0 if it is left out already."""
        with self._changed:
            if name in member.refuted:
                member.refuted[name] = why
                return 0.0
            health = self._settings.health
            member.refuted[name] = why
            level = logging.INFO if name in member.pauses else logging.WARNING  # one warning for a model that comes and goes
            pause_s = member.pauses[name] = min(max(2 * member.pauses.get(name, 0.0), health.first_s), health.longest_s)
        _LOG.log(level, "%s gets no requests for model %r for %g s: %s", member.name, name, pause_s, why)
        return pause_s

    def admit(self, member: Member, name: str) -> None:
        """Send a server requests for the model again."""
        with self._changed:
            member.refuted.pop(name, None)

    def others_for(self, member: Member, model: Wanted) -> bool:
        """Return whether another server that is up takes requests for the model."""
        with self._changed:
            return any(
                other.state is State.UP and other.may_have(model) and model[0] not in other.refuted
                for other in self._members.values()
                if other is not member and not other.leaving
            )

    def drop(self, member: Member, size: int) -> None:
        """End an attempt that was cancelled: it is neither an answer nor a failure."""
        with self._changed:
            self._end(member, size)

    def check(self, member: Member) -> None:
        """Ask a server whether it is ready, and then for its models. Returns without waiting."""

        def ready(outcome: bytes | CallError) -> None:
            up = _is_ready(outcome)
            if isinstance(up, CallError):
                self._checked(member, State.OUT, up.text)
            else:
                self.ask(member, "RepositoryIndex", _INDEX, indexed)

        def indexed(outcome: bytes | CallError) -> None:
            models = _models(outcome)
            if isinstance(models, CallError):
                self._checked(member, State.REFUSING, models.text)
            else:
                self._checked(member, State.UP, "", models)

        self.ask(member, "ServerReady", b"", ready)

    def ask(self, member: Member, method: str, request: bytes, done: Callable[[bytes | CallError], None]) -> None:
        """Start a call that is not an inference. `done` gets the answer or the failure."""
        try:
            member.transport.start(method, request, self._settings.timeout.connect_s, member.headers(), done)
        except CallError as error:
            done(error)

    def closes_within(self, seconds: float) -> bool:
        """Wait, and return True as soon as the pool is closed."""
        if not seconds:
            return self._closed
        with self._changed:
            return self._changed.wait_for(lambda: self._closed, seconds)

    def close(self) -> None:
        """Close all connections. Calls in flight end with the code CANCELLED."""
        with self._changed:
            self._closed = True
            members = tuple(self._members.values())
            self._changed.notify_all()
        for member in members:
            member.transport.close()

    def _open(self) -> None:
        """Connect to the servers, at first use."""
        with self._changed:
            if self._opened:
                return
            self._opened = True
        try:
            self._join(resolve(self._servers))
        except AddressError:  # the next request looks again: a server may have published its address by then
            with self._changed:
                self._opened = False
            raise
        self._plan_resolving()

    def _plan_resolving(self) -> None:
        """Schedule the next resolution of DNS names and files of addresses."""
        if any(is_name(server) for server in self._servers):
            has_file = any(is_file(server) for server in self._servers)
            every_s = self._settings.health.index_s
            self._timer.after(min(_FILE_S, every_s) if has_file else every_s, self._resolve_again)

    def _join(self, servers: Sequence[Server]) -> None:
        new = []
        with self._changed:
            for server in servers:
                if server.address not in self._members and not self._closed:
                    member = self._members[server.address] = Member(server, self._connect(server, self._settings))
                    new.append(member)
            named = {server.address for server in servers}
            for member in self._members.values():
                if member.leaving and member.name in named:
                    new.append(member)
                member.leaving = member.name not in named
        for member in new:
            self.check(member)

    def _resolve_again(self) -> None:
        """Ask DNS and read files again, on a thread of its own: the answer may take half a minute."""

        def ask() -> None:
            try:
                self._join(resolve(self._servers))
            except Exception as error:  # noqa: BLE001 - the known servers remain
                _LOG.warning("%s; the servers stay as they are", error)
            self._plan_resolving()

        threading.Thread(target=ask, name="hypersonic-client-dns", daemon=True).start()

    def _checked(self, member: Member, state: State, why: str, models: frozenset[str] | None = None) -> None:
        health, returned = self._settings.health, False
        with self._changed:
            if self._closed:
                return
            if state is State.OUT:
                member.failures = max(member.failures, 1)
                self._leave_out(member, why)
            else:
                if member.state is State.REFUSING and state is State.UP:
                    _LOG.info("%s takes new work again", member.name)
                elif state is State.REFUSING and member.state is not State.REFUSING:
                    _LOG.warning("%s rejects RepositoryIndex and gets no new work: %s", member.name, why)
                returned = state is State.UP and (member.state is State.OUT or bool(member.lacking))
                member.state, member.why, member.models = state, why, models
                member.failures = 0
                member.pause_s = 0.0
                member.lacking.clear()
                self._check_after(member, health.index_s)
            self._changed.notify_all()
        if returned:
            self.on_return(member)

    def _lacks(self, member: Member, model: Wanted) -> None:
        """Called with the lock held."""
        if model not in member.lacking:
            member.lacking.add(model)
            self._check_after(member, self._settings.health.first_s)

    def _check_after(self, member: Member, seconds: float) -> None:
        """Plan the next check of a server, in place of the one planned earlier. Called with the lock held."""
        member.checks += 1
        turn = member.checks
        self._timer.after(seconds, lambda: self.check(member) if turn == member.checks and not member.leaving else None)

    def _leave_out(self, member: Member, why: str = "") -> None:
        """Leave a server out and plan its next check. Called with the lock held."""
        health = self._settings.health
        member.pause_s = min(max(2 * member.pause_s, health.first_s), health.longest_s)
        if member.state is not State.OUT:
            level = logging.INFO if member.warned else logging.WARNING  # one warning for a server that comes and goes
            _LOG.log(level, "%s is left out for %g s: %s", member.name, member.pause_s, why or member.why)
            member.warned = True
        member.state, member.why = State.OUT, why or member.why
        self._check_after(member, member.pause_s)

    def _settled(self, model: Wanted) -> bool:
        members = self._members.values()
        return (
            self._closed
            or any(member.state is State.UP and (not model[0] or member.may_have(model)) for member in members)
            or all(member.state is not State.UNKNOWN for member in members)
        )

    @staticmethod
    def _end(member: Member, size: int) -> None:
        member.in_flight -= 1
        member.bytes_in_flight -= size


def _is_ready(outcome: bytes | CallError) -> bytes | CallError:
    """Return the outcome of ServerReady; an error also if the server answers that it is not ready."""
    if isinstance(outcome, CallError):
        return b"" if outcome.code in _SILENT or outcome.text.startswith("This protocol is restricted") else outcome
    try:
        ready = service_pb2.ServerReadyResponse.FromString(outcome).ready
    except DecodeError:
        return CallError(Code.UNKNOWN, "its answer to ServerReady is not one of Triton's protocol")
    return outcome if ready else CallError(Code.UNAVAILABLE, "it says that it is not ready")


def _models(outcome: bytes | CallError) -> frozenset[str] | CallError | None:
    """Return the models in the answer to RepositoryIndex; None if the server does not list them."""
    if isinstance(outcome, CallError):
        return None if outcome.code in _SILENT or outcome.text.startswith("This protocol is restricted") else outcome
    try:
        index = service_pb2.RepositoryIndexResponse.FromString(outcome)
    except DecodeError:
        return CallError(Code.UNKNOWN, "its answer to RepositoryIndex is not one of Triton's protocol")
    return frozenset(entry.name for entry in index.models if entry.state in {"READY", ""})


def _reason(member: Member, model: Wanted) -> str:
    if member.may_have(model):
        return f"is {member.state.value}: {member.why}" if member.why else f"is {member.state.value}"
    has = f" (it has {', '.join(sorted(member.models)) or 'none'})" if member.models is not None else ""
    return f"has no model {model[0]!r}{f' of version {model[1]}' if model[1] else ''}{has}"
