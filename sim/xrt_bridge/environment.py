# SPDX-License-Identifier: Apache-2.0
"""Prepare the directories, files and environment variables that XRT needs in its `hw_emu` mode.

::

    hypersonic_xrt_.../          under /tmp, which is fixed in XRT; removed at the end
    |-- xrt/lib/                 XILINX_XRT: links to the installed libraries
    |-- emconfig.json            EMCONFIG_PATH: which card this machine has
    |-- xrt.ini                  XRT_INI_PATH: the directory of simulate.sh
    |-- sim/simulate.sh          starts the device process
    `-- run/                     XRT's own working directory

XRT creates its socket in /tmp/$USER, so USER is set to the name of the directory.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.hls.child import python_argv, python_environment
from hypersonic.host.library import OVERRIDE

LIBRARIES = ("libxrt_coreutil.so.2", "libxrt_core.so.2", "libxrt_hwemu.so.2")
#: where the packages of XRT and of distributions install them; $XILINX_XRT is searched first
PLACES = ("/opt/xilinx/xrt/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")

#: fixed in XRT
_SOCKET_ROOT = Path("/tmp")  # noqa: S108 -- XRT's choice; what is ours below it is made by mkdtemp
#: XRT 2.13 overruns its message buffer when a message is longer than the first one, which has its [Emulation] settings. So
#: padding makes these long, at the price of a warning about an unknown option, and buffers are sent in shorter pieces.
_PADDING_BYTES = 400_000
_PACKET_BYTES = 1 << 16


class XrtNotFoundError(ValueError):
    """XRT's libraries are not on this machine."""


def find_xrt() -> Path:
    """Return the directory of XRT's libraries, those of the hw_emu mode included.

    Raises XrtNotFoundError, whose text says what to install.
    """
    own = os.environ.get("XILINX_XRT")
    places = [Path(place) for place in ([f"{own}/lib"] if own else []) + list(PLACES)]
    for place in places:
        if all((place / name).exists() for name in LIBRARIES):
            return place
    raise XrtNotFoundError(
        f"XRT with its hw_emu mode is not installed ({', '.join(LIBRARIES)}): install Debian 12's libxrt1 or set XILINX_XRT"
    )


@contextmanager
def xrt_environment(xclbin: Path) -> Iterator[dict[str, str]]:
    """Yield the environment variables for a process in which AMD's XRT finds one card that can load this xclbin.

    Only one process at a time may load it. Raises XclbinError for a damaged file, ValueError for one that is not built for
    hw_emu or has no simulator for this machine, XrtNotFoundError if XRT is not installed, and OSError.
    """
    contents = Xclbin.read(xclbin)
    if contents.target is not Target.HW_EMU:
        raise ValueError(f"{xclbin} is built for target {contents.target}, expected hw_emu: build the model for it")
    libraries = find_xrt()
    _check_loads(xclbin)
    with tempfile.TemporaryDirectory(prefix="hypersonic_xrt_", dir=_SOCKET_ROOT) as name, _no_debug_log():
        directory = Path(name)
        _link_libraries(directory / "xrt" / "lib", libraries)
        _write_simulator(directory / "sim", xclbin)
        (directory / "run").mkdir()
        (directory / "emconfig.json").write_text(json.dumps(_emconfig(contents.vbnv)))
        (directory / "xrt.ini").write_text(_ini(directory / "sim"))
        yield {**os.environ, **_variables(directory)}


def _device_process(xclbin: Path) -> list[str]:
    return python_argv("-m", "hypersonic.sim.xrt_bridge.card", str(xclbin.resolve()))


def _check_loads(xclbin: Path) -> None:
    """Check that the device process can start, because XRT would wait five minutes for one that cannot."""
    done = subprocess.run(_device_process(xclbin), env=python_environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"{xclbin} cannot be simulated, build the model again: {done.stderr.strip()}")


@contextmanager
def _no_debug_log() -> Iterator[None]:
    """Remove the empty log that XRT writes into the directory of the program, here Python's, unless it was there before."""
    log = Path(sys.executable).resolve().with_name("emulation_debug.log")
    before = log.exists()
    try:
        yield
    finally:
        if not before:
            log.unlink(missing_ok=True)


def _variables(directory: Path) -> dict[str, str]:
    return {
        "XCL_EMULATION_MODE": "hw_emu",
        "XILINX_XRT": str(directory / "xrt"),
        "EMCONFIG_PATH": str(directory),
        "XRT_INI_PATH": str(directory / "xrt.ini"),
        "SDACCEL_EM_RUN_DIR": str(directory / "run"),
        "USER": directory.name,
        OVERRIDE: str(directory / "xrt" / "lib" / LIBRARIES[0]),
    }


def _link_libraries(directory: Path, installed: Path) -> None:
    """Link the libraries below XILINX_XRT, where XRT looks for its shims and plugins but Debian does not install them."""
    (directory / "xrt" / "module").mkdir(parents=True)
    for name in LIBRARIES:
        (directory / name).symlink_to(installed / name)


def _write_simulator(directory: Path, xclbin: Path) -> None:
    directory.mkdir()
    script = directory / "simulate.sh"
    # Signals to the process group are ignored, because a host without its device process never ends. The device process ends
    # when the host closes the socket.
    path = shlex.quote(python_environment()["PYTHONPATH"])
    device = f'{shlex.join(_device_process(xclbin))} "{_SOCKET_ROOT}/$USER/$EMULATION_SOCKETID"'
    script.write_text(f'#!/bin/sh\ntrap "" INT TERM\nexport PYTHONPATH={path}\nexec {device}\n')
    script.chmod(0o700)


def _ini(simulator: Path) -> str:
    return f"[Emulation]\nsim_dir={simulator}\npacket_size={_PACKET_BYTES}\npadding={'.' * _PADDING_BYTES}\n"


def _emconfig(vbnv: str) -> dict[str, object]:
    """The description of a machine with one card. XRT expects every value as text."""
    device = {
        "Name": vbnv,
        "HalMajorVersion": "2",
        "HalMinorVersion": "0",
        "VendorId": "4334",
        "NumDevices": "1",
        "DdrBanks": [{"Size": "16GB"}],
        "FeatureRom": {},
    }
    return {
        "Version": {"FileVersion": "2.0", "ToolVersion": "2022.1"},
        "Platform": {"UnifiedPlatform": "true", "ExpandedPR": "true", "Boards": [{"NumBoards": "1", "Devices": [device]}]},
    }
