# SPDX-License-Identifier: Apache-2.0
"""The parent of a local server's process. It ends the server when the client's process ends, even after SIGKILL.

::

    client --pipe on standard input--> supervisor --PR_SET_PDEATHSIG--> hypersonic serve

The server cannot get PR_SET_PDEATHSIG from the client directly: Linux sends that signal when the thread that started the child
ends, which may be a short-lived one. The supervisor has one thread. It stops the server when the client writes to the pipe or
closes it, or when the client's process is gone although a fork of it still holds the pipe open. If the supervisor itself is
killed, the server gets SIGKILL.

::

    python -I -S supervisor.py CLIENT_PID GRACE_S PROGRAM ARGUMENT..

It imports a few modules of the standard library and nothing of this package, so that it starts in milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys

_PR_SET_PDEATHSIG = 1  # <sys/prctl.h>
#: polling interval in ms for the client's process; usually the pipe shows its end at once
_POLL_MS = 1000


def supervise(client: int, grace_s: float, command: list[str]) -> int:
    """Run the command until it ends or the client does. Returns its exit code, or 128 + the signal that ended it.

    Args:
        client: the process id of the client, this process's parent.
        grace_s: the time between SIGTERM and SIGKILL.
    """
    if os.getppid() != client:
        return 0
    server = _start(command)
    ended = os.pidfd_open(server)
    if not _wait(ended, client):
        signal.pidfd_send_signal(ended, signal.SIGTERM)
        if not select.select([ended], [], [], grace_s)[0]:
            signal.pidfd_send_signal(ended, signal.SIGKILL)
    _, status = os.waitpid(server, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _start(command: list[str]) -> int:
    """Start the server with an empty standard input; return its process id."""
    supervisor = os.getpid()
    libc = ctypes.CDLL(None)
    server = os.fork()
    if server:
        return server
    try:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == supervisor:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.execv(command[0], command)  # noqa: S606 - no shell, on purpose
    except OSError as error:
        os.write(2, f"cannot start {command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _wait(ended: int, client: int) -> bool:
    """Wait for the end of the server or of the client. Returns whether the server has ended."""
    poll = select.poll()
    for descriptor in (0, ended):
        poll.register(descriptor, select.POLLIN)
    while True:
        ready = dict(poll.poll(_POLL_MS))
        if ended in ready:
            return True
        if ready or os.getppid() != client:
            return False


if __name__ == "__main__":
    raise SystemExit(supervise(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
