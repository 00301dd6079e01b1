# SPDX-License-Identifier: Apache-2.0
"""The keeper of a model's process: its parent, which ensures that no process started by the model outlives it.

The model may start other processes: programs, pools, daemons. They must end when the model ends, and when the server ends,
which may be killed at any moment and can then do nothing. So the process that the server starts forks before it has loaded
anything. The child becomes the model. The parent waits for the end of the child or of the server (when the pipe that the server
holds open is closed). A process whose parent has died becomes the keeper's child (PR_SET_CHILD_SUBREAPER), even a daemon in a
session of its own. The keeper kills its children until none is left, and then ends with the model's status.
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
#: the time, in seconds, after which a killed process that waits for a device is left to the kernel
_PATIENCE_S = 5.0
_POLL_S = 0.002


def fork(control: int) -> None:
    """Continue in a child; this process becomes its keeper and does not return.

    Args:
        control: read end of the server's pipe.
    """
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    keeper = os.getpid()
    child = os.fork()
    if child:
        libc.prctl(_PR_SET_NAME, b"model-keeper")
        _end_as(_keep(child, control))
    os.close(control)
    os.setpgid(0, 0)  # lead a process group, which can be killed as a whole, in the keeper's session
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != keeper:
        os._exit(1)


def _keep(child: int, control: int) -> int:
    """Wait for the end, kill the child and all its descendants, and return the child's wait status."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    _close_all_but(control)
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


def _close_all_but(control: int) -> None:
    """Close the other descriptors, so that their other ends notice when the child is gone."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - see _children()
        if int(name) > 2 and int(name) != control:
            with suppress(OSError):  # the descriptor that the listing itself used
                os.close(int(name))


def _end(child: int, pidfd: int, deadline: float) -> int:
    """Kill the child and its process group; killing a group is atomic, even if it forks continuously."""
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)  # it may not lead a group yet
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.poll(max(0, int((deadline - time.monotonic()) * 1000)))
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # the ID cannot be reused before waitpid() below
    pid, status = os.waitpid(child, os.WNOHANG)
    return status if pid else 0


def _children_left() -> bool:
    """Reap dead children; return whether any child is alive."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _children() -> Iterator[int]:
    """Iterate over the keeper's children; without pathlib, which would occupy memory for life."""
    me = os.getpid()
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            with suppress(OSError, ValueError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                # the command, in parentheses, may hold anything
                if int(file.read().rpartition(b")")[2].split()[1]) == me:
                    yield int(name)


def _end_as(status: int) -> None:
    """End with the child's status, so that the server can report the cause of the model's death."""
    if os.WIFSIGNALED(status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the model has already dumped its core
        number = os.WTERMSIG(status)
        with suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 1)
