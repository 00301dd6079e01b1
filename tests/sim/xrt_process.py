# SPDX-License-Identifier: Apache-2.0
"""Another process that uses the emulated card: reads commands from standard input, and answers each with `ok` or an errno.

load PATH | open NAME (exclusively) | share NAME | uuid | buffer | close (the last kernel)
"""

from __future__ import annotations

import ctypes
import errno
import subprocess
import sys
from ctypes import c_char_p, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from pathlib import Path

#: XRT itself prints lines to standard output too
_ANSWER = "answer: "


class Process:
    """A process with card 0 open."""

    def __init__(self, library: str, errors: Path) -> None:
        """errors: the file for what the library prints; beside it are the library's own files (`.run`)."""
        self.errors = errors
        argv = [sys.executable, __file__, library]
        with errors.open("w") as file:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True, cwd=errors.parent
            )

    def send(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        assert self.process.stdout is not None
        lines = iter(self.process.stdout.readline, "")
        return next((line.removeprefix(_ANSWER).strip() for line in lines if line.startswith(_ANSWER)), "ended")

    def ask(self, command: str) -> str:
        self.send(command)
        return self.answer()

    def message(self) -> str:
        """The last line that the library has printed."""
        return self.errors.read_text().splitlines()[-1].removeprefix("[XRT] ERROR: ")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        with self.process:
            self.kill()


def main(library: str) -> None:
    """Answer commands until the end of the input."""
    xrt = ctypes.CDLL(library, use_errno=True)
    xrt.xrtDeviceOpen.restype = xrt.xrtPLKernelOpen.restype = xrt.xrtPLKernelOpenExclusive.restype = c_void_p
    xrt.xrtBOAlloc.restype = c_void_p
    xrt.xrtDeviceOpen.argtypes = [c_uint]
    xrt.xrtBOAlloc.argtypes = [c_void_p, c_size_t, c_uint64, c_uint32]
    xrt.xrtDeviceLoadXclbinFile.argtypes = [c_void_p, c_char_p]
    xrt.xrtDeviceGetXclbinUUID.argtypes = [c_void_p, c_void_p]
    xrt.xrtKernelClose.argtypes = [c_void_p]
    xrt.xrtKernelClose.restype = c_int
    for function in (xrt.xrtPLKernelOpen, xrt.xrtPLKernelOpenExclusive):
        function.argtypes = [c_void_p, c_void_p, c_char_p]
    device, kernels = xrt.xrtDeviceOpen(0), list[int]()
    uuid = (ctypes.c_ubyte * 16)()

    def execute(verb: str, argument: str) -> bool:
        if verb == "load":
            done = xrt.xrtDeviceLoadXclbinFile(device, argument.encode()) == 0
            return done and xrt.xrtDeviceGetXclbinUUID(device, uuid) == 0
        if verb == "uuid":
            return bool(xrt.xrtDeviceGetXclbinUUID(device, uuid) == 0)
        if verb == "buffer":
            return bool(xrt.xrtBOAlloc(device, 64, 0, 0))
        if verb == "close":
            return bool(xrt.xrtKernelClose(kernels.pop()) == 0)
        function = xrt.xrtPLKernelOpenExclusive if verb == "open" else xrt.xrtPLKernelOpen
        kernel = function(device, uuid, argument.encode())
        kernels.extend([kernel] if kernel else [])
        return bool(kernel)

    for line in sys.stdin:
        verb, _, argument = line.strip().partition(" ")
        ctypes.set_errno(0)
        answer = "ok" if execute(verb, argument) else errno.errorcode.get(ctypes.get_errno(), "failed")
        sys.stdout.write(f"{_ANSWER}{answer}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
