# SPDX-License-Identifier: Apache-2.0
"""A model's process: spawned, listened to and reaped by one thread, which lives exactly as long as the process.

The spawned process is the model's keeper (stub/keeper.py). It kills the model, and everything that the model has started, when
the control pipe is closed. The server closes it to kill the model; if the server dies, the kernel closes it.
"""

from __future__ import annotations

import logging
import os
import queue
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from hypersonic.hls.child import python_argv, python_environment
from hypersonic.server.backends.python.stub.channel import Channel, ChannelClosedError, Message, MessageError
from hypersonic.server.errors import InstanceLostError

_LOG = logging.getLogger(__name__)
_MODULE = "hypersonic.server.backends.python.stub"
_LONGEST_LINE_BYTES = 8192
#: the time that a keeper has to kill everything, in seconds
_KEEPER_S = 8.0


class Listener(Protocol):
    """The receiver of a process's messages. Its methods are called on the process's thread."""

    def heard(self, process: ModelProcess, message: Message, payload: memoryview) -> None:
        """Handle one message.

        Raises MessageError, ValueError, TypeError, LookupError or AttributeError for a malformed one; the process is then
        killed.
        """

    def ended(self) -> None:
        """Handle the death of the process; all its messages have been handled."""


class ModelProcess:
    """A process from spawn to death.

    Attributes:
        run: the channel of runs, used by the caller.
        events: the other channel, which the process's thread reads; any thread may send.
    """

    def __init__(self, name: str, fds: Sequence[int], limit_bytes: int, listener: Listener) -> None:
        """Start it.

        Args:
            fds: the shared memory of inputs and of outputs.

        Raises:
            InstanceLostError: If it cannot be started.
        """
        self.name = name
        self._listener = listener
        run, theirs_run = socket.socketpair()
        events, theirs_events = socket.socketpair()
        self.run = Channel(run, limit_bytes)
        self.events = Channel(events, limit_bytes)
        self._output = b""
        self._killed = False
        self._pidfd = -1
        #: the write end of the control pipe; closing it kills the process
        self._control = -1
        self._ending = threading.Lock()
        self._started: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=self._live, args=((theirs_run, theirs_events), tuple(fds)), name=f"model:{name}", daemon=True
        )
        self._thread.start()
        failure = self._started.get()
        if failure is not None:
            self.run.close()
            self.events.close()
            raise InstanceLostError(f"Stub process '{name}' cannot be started: {failure}")

    def kill(self) -> None:
        """Kill the process at once; does nothing if it is dead already."""
        self._killed = True
        self._end()

    def _end(self) -> None:
        """Close the control pipe: the keeper kills the model, and the process's thread waits for that."""
        with self._ending:
            if self._control < 0:
                return
            os.close(self._control)
            self._control = -1
            if self._pidfd >= 0:  # it may have been stopped by SIGSTOP
                signal.pidfd_send_signal(self._pidfd, signal.SIGCONT)
        self.events.shutdown()

    def stop(self, patience_s: float) -> None:
        """Let the model finalize for up to `patience_s` seconds, then kill it. No run may be in progress."""
        with suppress(ChannelClosedError):
            self.run.send(["stop"])
        self._thread.join(patience_s)
        if self._thread.is_alive() and not self._killed:
            _LOG.warning("%s: finalize() took longer than %g s: killed", self.name, patience_s)
            self.kill()
        self._thread.join()

    def wait(self, patience_s: float | None = None) -> None:
        """Wait until the process is dead and its messages are handled, at most `patience_s` seconds; None = for ever."""
        self._thread.join(patience_s)

    @property
    def pid(self) -> int:
        """The process ID of the keeper."""
        return self._process.pid

    def _live(self, theirs: Sequence[socket.socket], memory: Sequence[int]) -> None:
        failure = self._try_spawn([sock.fileno() for sock in theirs], memory)
        for sock in theirs:
            sock.close()
        self._started.put(failure)
        if failure is not None:
            return
        try:
            self._listen()
        except (ChannelClosedError, MessageError, ValueError, TypeError, LookupError, AttributeError) as error:
            if not isinstance(error, ChannelClosedError):
                _LOG.error("%s: its process sent a malformed message and is killed: %s", self.name, error)
        finally:
            self._reap()

    def _try_spawn(self, sockets: Sequence[int], memory: Sequence[int]) -> Exception | None:
        try:
            self._spawn(sockets, memory)
        except (OSError, ValueError) as error:
            return error
        return None

    def _spawn(self, sockets: Sequence[int], memory: Sequence[int]) -> None:
        theirs, control = os.pipe()
        fds = (theirs, *sockets, *memory)
        # -B: do not write bytecode files into the repository
        command = python_argv("-B", "-m", _MODULE, *(str(fd) for fd in fds), self.name)
        try:
            self._process = subprocess.Popen(
                command,
                env=python_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,
                pass_fds=fds,
                start_new_session=True,
            )
            self._pidfd = os.pidfd_open(self._process.pid)
        except BaseException:
            os.close(control)
            raise
        finally:
            os.close(theirs)
        self._control = control

    def _listen(self) -> None:
        """Handle messages and output until the process is dead or has closed its side."""
        assert self._process.stdout is not None
        output = self._process.stdout.fileno()
        poll = select.poll()
        for fd in (self.events.fileno(), output, self._pidfd):
            poll.register(fd, select.POLLIN)
        while True:
            ready = [fd for fd, _ in poll.poll()]
            if output in ready and not self._print(output):
                poll.unregister(output)
            if self.events.fileno() in ready:
                self._hear()
            elif self._pidfd in ready:
                return

    def _hear(self) -> None:
        self.events.pull()
        while (received := self.events.received()) is not None:
            self._listener.heard(self, *received)

    def _print(self, output: int) -> bool:
        """Log the model's output line by line; return False at its end."""
        data = os.read(output, 1 << 16)
        *lines, self._output = (self._output + data).split(b"\n")
        if len(self._output) > _LONGEST_LINE_BYTES or not data:
            lines, self._output = [*lines, self._output], b""
        for line in filter(None, lines):
            _LOG.info("%s: %s", self.name, line[:_LONGEST_LINE_BYTES].decode(errors="backslashreplace"))
        return bool(data)

    def _reap(self) -> None:
        """Wait for the death of the process and of everything it has started."""
        self._end()
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        if not poll.poll(1000 * _KEEPER_S):  # the keeper does not respond; the model dies with it
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        code = self._process.wait()
        if code == -signal.SIGKILL:  # the model or the keeper was killed; a killed keeper leaves children
            _kill_session(self._process.pid)
        if code and not self._killed:
            _LOG.error("%s: its process ended with %s", self.name, _ending(code))
        self._drain()
        self._listener.ended()
        self.run.shutdown()
        self.events.close()
        with self._ending:
            os.close(self._pidfd)
            self._pidfd = -1

    def _drain(self) -> None:
        """Log the output that the process wrote before it died."""
        assert self._process.stdout is not None
        with self._process.stdout as output, suppress(OSError):
            os.set_blocking(output.fileno(), False)
            while self._print(output.fileno()):
                pass


def _kill_session(number: int) -> None:
    """Kill the processes that are in this session now."""
    for process in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            # the command, in parentheses, may hold anything
            if int((process / "stat").read_bytes().rpartition(b")")[2].split()[3]) == number:
                os.kill(int(process.name), signal.SIGKILL)


def _ending(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
