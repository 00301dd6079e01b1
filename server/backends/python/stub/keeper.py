# SPDX-License-Identifier: Apache-2.0
"""The keeper of a model's process: its parent, which lets nothing that the model has started outlive it.

The model's process may start others: programs, pools, daemons. They must be gone when it is, and when the server is, which may
be killed at any moment and then does nothing any more. So the process that the server starts forks before it has loaded
anything: the child becomes the model, the parent waits, for the child's end or for the server's (the pipe that it holds open
is closed then). Whoever loses its own parent becomes the keeper's child (PR_SET_CHILD_SUBREAPER), also a daemon in a session of
its own; the keeper kills its children until there are none, and ends as the model did.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import time
from collections.abc import Iterator
from contextlib import suppress

_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36  # <sys/prctl.h>
#: after which a process that was killed is left to the kernel: it waits for a device
_PATIENCE_S = 5.0
_POLL_S = 0.002


def fork(control: int) -> None:
    """Go on in a child; this process keeps it and does not return. control: read end of the server's pipe."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    keeper = os.getpid()
    child = os.fork()
    if child:
        libc.prctl(_PR_SET_NAME, b"model-keeper")
        _end_as(_keep(child, control))
    os.close(control)
    os.setpgid(0, 0)  # of a group that can be killed at once, in the keeper's session
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != keeper:
        os._exit(1)


def _keep(child: int, control: int) -> int:
    """The child's wait status, once it is dead and everything that came of it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    _let_go_of_all_but(control)
    pidfd = os.pidfd_open(child)
    poll = select.poll()
    for descriptor in (control, pidfd):
        poll.register(descriptor, select.POLLIN)
    poll.poll()
    deadline = time.monotonic() + _PATIENCE_S
    status = _end(child, pidfd, deadline)
    while _children_left() and time.monotonic() < deadline:
        for pid in _children():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)
    return status


def _let_go_of_all_but(control: int) -> None:
    """The other ends of what the child holds must see when it is gone."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - see _children()
        if int(name) > 2 and int(name) != control:
            with suppress(OSError):  # the one that was listed with
                os.close(int(name))


def _end(child: int, pidfd: int, deadline: float) -> int:
    """Kill it and its group, as one: a group that forks faster than it is counted has no chance."""
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)  # it may not have come to lead a group yet
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.poll(max(0, int((deadline - time.monotonic()) * 1000)))
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # its number is still its own: it is not waited for yet
    pid, status = os.waitpid(child, os.WNOHANG)
    return status if pid else 0


def _children_left() -> bool:
    """Bury the dead; whether any child lives."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _children() -> Iterator[int]:
    """Without pathlib, which would be memory for life."""
    me = os.getpid()
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            with suppress(OSError, ValueError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                # the command, in parentheses, may hold anything
                if int(file.read().rpartition(b")")[2].split()[1]) == me:
                    yield int(name)


def _end_as(status: int) -> None:
    """So that the server can say what the model died of."""
    if os.WIFSIGNALED(status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the model's core is there already
        number = os.WTERMSIG(status)
        with suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 1)
